# The same loops for three instruction sets; kernels.cpp picks one when the program starts.
foreach(set IN ITEMS baseline avx2 avx512)
  add_library(lockstep_kernels_${set} OBJECT ${CMAKE_CURRENT_LIST_DIR}/kernels_of_set.cpp
                                             ${CMAKE_CURRENT_LIST_DIR}/sgd_of_set.cpp)
  target_link_libraries(lockstep_kernels_${set} PRIVATE lockstep_flags)
  target_compile_definitions(lockstep_kernels_${set} PRIVATE LOCKSTEP_SET=${set})
  target_compile_options(lockstep_kernels_${set} PRIVATE -O3)
  target_sources(lockstep_core PRIVATE $<TARGET_OBJECTS:lockstep_kernels_${set}>)
endforeach()
target_compile_options(lockstep_kernels_avx2 PRIVATE -mavx2 -mfma -mf16c)
target_compile_options(lockstep_kernels_avx512 PRIVATE -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c
                                                       -mprefer-vector-width=512)
