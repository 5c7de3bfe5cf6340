# Decoders of what peers send under libFuzzer: build/release/decoders_fuzz, made by `make fuzz` and not by
# `make build`. libFuzzer needs Clang. The folder that is fuzzed is compiled anew with it, instrumented;
# lockstep_core, whose kernels Clang 14 does not compile, is linked as it is.
find_program(CLANG clang++)
if(NOT CLANG OR LOCKSTEP_SANITIZE)
  return()
endif()
set(fuzz_sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
set(fuzz_folder ${CMAKE_BINARY_DIR}/fuzz)
file(MAKE_DIRECTORY ${fuzz_folder})

# Compiles a source, with flags of its own; what it is called says for what.
function(lockstep_fuzz_object source name)
  add_custom_command(
    OUTPUT ${fuzz_folder}/${name}.o
    COMMAND ${CLANG} -std=c++20 -g -O1 -ffp-contract=off ${fuzz_sanitizers} -fsanitize=fuzzer-no-link
            -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/tests/compression ${ARGN} -MD -MF
            ${fuzz_folder}/${name}.d -c ${source} -o ${fuzz_folder}/${name}.o
    DEPENDS ${source}
    DEPFILE ${fuzz_folder}/${name}.d
    VERBATIM)
  set(fuzz_objects ${fuzz_objects} ${fuzz_folder}/${name}.o PARENT_SCOPE)
endfunction()

set(fuzz_objects "")
lockstep_fuzz_object(${CMAKE_CURRENT_LIST_DIR}/decoders.cpp decoders)
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/compression/*.cpp)
foreach(source IN LISTS sources)
  get_filename_component(name ${source} NAME_WE)
  if(NOT name MATCHES "_of_set$")
    lockstep_fuzz_object(${source} ${name})
    continue()
  endif()
  foreach(set IN ITEMS baseline avx2 avx512)
    lockstep_fuzz_object(${source} ${name}_${set} -DLOCKSTEP_SET=${set} ${LOCKSTEP_FLAGS_OF_${set}})
  endforeach()
endforeach()

add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/decoders_fuzz
  COMMAND ${CLANG} ${fuzz_sanitizers} -fsanitize=fuzzer ${fuzz_objects} $<TARGET_FILE:lockstep_core> -lfmt -o
          ${CMAKE_BINARY_DIR}/decoders_fuzz
  DEPENDS ${fuzz_objects} lockstep_core
  VERBATIM)
add_custom_target(decoders_fuzz DEPENDS ${CMAKE_BINARY_DIR}/decoders_fuzz)
