# For the folders that use LibTorch (replica, models, data, train): lockstep_torch_folder(name deps…)
# is lockstep_folder() with <torch/torch.h> precompiled. Parsing that header costs every file some
# 25 s; the precompiled one is made once, by lockstep_torch_header, and shared. Sharing needs the same
# compile flags everywhere, so these folders add none of their own.
include_guard(GLOBAL)
find_package(Torch 1.13 REQUIRED)

# `torch` is imported, so its headers are system headers and -Werror does not look into them.
add_library(lockstep_torch INTERFACE)
target_link_libraries(lockstep_torch INTERFACE lockstep_flags torch)
# ccache stores what was compiled with a precompiled header only with this.
target_compile_options(lockstep_torch INTERFACE $<BUILD_INTERFACE:-fpch-preprocess>)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_header.cpp CONTENT "// Only carries the header.\n")
add_library(lockstep_torch_header OBJECT ${CMAKE_BINARY_DIR}/torch_header.cpp)
target_precompile_headers(lockstep_torch_header PRIVATE <torch/torch.h>)

# Also for tests and programs that include LibTorch.
function(lockstep_with_torch target)
  target_link_libraries(${target} PUBLIC lockstep_torch)
  if(NOT target STREQUAL lockstep_torch_header)
    target_precompile_headers(${target} REUSE_FROM lockstep_torch_header)
  endif()
endfunction()
lockstep_with_torch(lockstep_torch_header)

function(lockstep_torch_folder name)
  lockstep_folder(${name} ${ARGN})
  lockstep_with_torch(lockstep_${name})
endfunction()

# Of a target's files only those whose names match use LibTorch. The others do without its header,
# which even precompiled takes ten times as long as they do.
function(lockstep_torch_only target names)
  get_target_property(plain ${target} SOURCES)
  list(FILTER plain EXCLUDE REGEX "/(${names})\\.cpp$")
  set_source_files_properties(${plain} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
