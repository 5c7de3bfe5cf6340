file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
target_sources(lockstep PRIVATE ${sources})
target_link_libraries(lockstep PRIVATE lockstep_bench lockstep_compression lockstep_study lockstep_web CLI11::CLI11 tomlplusplus::tomlplusplus)
target_compile_definitions(lockstep PRIVATE LOCKSTEP_VERSION="${PROJECT_VERSION}")
set(commit_header ${CMAKE_BINARY_DIR}/generated/lockstep_commit.h)
add_custom_target(
  lockstep_commit
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DOUT=${commit_header} -P ${CMAKE_SOURCE_DIR}/cmake/commit.cmake
  BYPRODUCTS ${commit_header}
  VERBATIM)
add_dependencies(lockstep lockstep_commit)
# What `lockstep --version` names.
set(libraries "")
foreach(library IN ITEMS "LibTorch ${Torch_VERSION}" "UCX ${UCX_VERSION}" "SimGrid ${SIMGRID_VERSION}"
                         "Thrift ${THRIFT_thrift_VERSION}" "OpenSSL ${OPENSSL_VERSION}"
                         "libjpeg ${JPEG_VERSION}" "libpng ${PNG_VERSION_STRING}" "fmt ${fmt_VERSION}"
                         "nlohmann_json ${nlohmann_json_VERSION}" "CLI11 ${CLI11_VERSION}"
                         "tomlplusplus ${tomlplusplus_VERSION}")
  string(REPLACE " " "\", \"" pair ${library})
  string(APPEND libraries "    {\"${pair}\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/lockstep_libraries.h
     CONTENT "constexpr const char* kLibraries[][2] = {\n@libraries@};\n" @ONLY)
target_include_directories(lockstep PRIVATE ${CMAKE_BINARY_DIR}/generated)
lockstep_with_torch(lockstep)
lockstep_torch_only(lockstep "train_command|list_command|study_subject")
