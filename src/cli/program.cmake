file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
target_sources(lockstep PRIVATE ${sources})
target_link_libraries(lockstep PRIVATE lockstep_bench lockstep_cluster lockstep_collectives lockstep_measure
                                       CLI11::CLI11)
