# The same loops for three instruction sets; kernels.cpp picks one when the program starts.
set(LOCKSTEP_FLAGS_OF_baseline "")
set(LOCKSTEP_FLAGS_OF_avx2 -mavx2 -mfma -mf16c)
set(LOCKSTEP_FLAGS_OF_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512)

# Adds files of FOLDER to lockstep_FOLDER once per set, with LOCKSTEP_SET naming it.
function(lockstep_kernels folder)
  list(TRANSFORM ARGN PREPEND ${CMAKE_SOURCE_DIR}/src/${folder}/)
  foreach(set IN ITEMS baseline avx2 avx512)
    add_library(lockstep_${folder}_${set} OBJECT ${ARGN})
    target_link_libraries(lockstep_${folder}_${set} PRIVATE lockstep_flags)
    target_compile_definitions(lockstep_${folder}_${set} PRIVATE LOCKSTEP_SET=${set})
    target_compile_options(lockstep_${folder}_${set} PRIVATE -O3 ${LOCKSTEP_FLAGS_OF_${set}})
    target_sources(lockstep_${folder} PRIVATE $<TARGET_OBJECTS:lockstep_${folder}_${set}>)
  endforeach()
endfunction()
