# Installs the build into an empty prefix, builds an example against that alone, and runs it:
# cmake -Dbuild=BUILD -Dsource=SOURCE -P install_test.cmake
cmake_minimum_required(VERSION 3.25)
set(folder ${build}/install_test)
file(REMOVE_RECURSE ${folder})

function(run)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}\nended with ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${build} --prefix ${folder}/prefix)
run(${CMAKE_COMMAND} -S ${source}/examples -B ${folder}/examples -DCMAKE_PREFIX_PATH=${folder}/prefix)
run(${CMAKE_COMMAND} --build ${folder}/examples --target two_ranks)
run(${folder}/examples/two_ranks)
if(NOT output MATCHES "epoch 3: loss")
  message(FATAL_ERROR "the example printed\n${output}")
endif()
run(${folder}/prefix/bin/lockstep list strategies)
file(REMOVE_RECURSE ${folder})
