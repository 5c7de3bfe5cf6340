file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
target_sources(lockstep PRIVATE ${sources})
target_link_libraries(lockstep PRIVATE lockstep_bench lockstep_study lockstep_web CLI11::CLI11 tomlplusplus::tomlplusplus)
target_compile_definitions(lockstep PRIVATE LOCKSTEP_VERSION="${PROJECT_VERSION}")
set(commit_header ${CMAKE_BINARY_DIR}/generated/lockstep_commit.h)
add_custom_target(
  lockstep_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUT=${commit_header} -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake
  BYPRODUCTS ${commit_header}
  VERBATIM)
add_dependencies(lockstep lockstep_commit)
target_include_directories(lockstep PRIVATE ${CMAKE_BINARY_DIR}/generated)
lockstep_with_torch(lockstep)
lockstep_torch_only(lockstep "training|train_worlds|list_command|study_subject")
