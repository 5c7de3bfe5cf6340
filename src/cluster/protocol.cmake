# The Thrift compiler writes the control protocol into the build folder; it is compiled apart, without our
# warnings.
pkg_check_modules(LIBEVENT REQUIRED IMPORTED_TARGET libevent)
set(protocol_dir ${CMAKE_BINARY_DIR}/generated/cluster)
set(protocol_sources ${protocol_dir}/Control.cpp ${protocol_dir}/protocol_types.cpp
                     ${protocol_dir}/protocol_constants.cpp)
add_custom_command(
  OUTPUT ${protocol_sources} ${protocol_dir}/Control.h ${protocol_dir}/protocol_types.h
         ${protocol_dir}/protocol_constants.h
  COMMAND ${CMAKE_COMMAND} -E make_directory ${protocol_dir}
  COMMAND ${THRIFT_COMPILER} --gen cpp:no_skeleton -out ${protocol_dir}
          ${CMAKE_CURRENT_LIST_DIR}/protocol.thrift
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/protocol.thrift)
add_library(lockstep_protocol STATIC ${protocol_sources})
target_include_directories(lockstep_protocol SYSTEM
  PUBLIC $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/generated> $<BUILD_INTERFACE:${protocol_dir}>)
target_link_libraries(lockstep_protocol PUBLIC PkgConfig::THRIFT PkgConfig::LIBEVENT Threads::Threads)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_protocol PRIVATE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
target_link_libraries(lockstep_cluster PUBLIC lockstep_protocol OpenSSL::Crypto)
