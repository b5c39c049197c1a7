# cohort_find_torch(target) makes the interface library `target`: LibTorch's headers and libraries.
# Used by this build, and installed for programs that include <cohort/torch.h>.
#
# LibTorch's own CMake package drags in OpenCV, protobuf and compiler flags; headers and libraries
# are all that is used of it.
function(cohort_find_torch target)
  find_path(TORCH_INCLUDE_DIR ATen/ATen.h)
  find_library(TORCH_CPU_LIBRARY torch_cpu)
  find_library(C10_LIBRARY c10)
  mark_as_advanced(TORCH_INCLUDE_DIR TORCH_CPU_LIBRARY C10_LIBRARY)
  foreach(part TORCH_INCLUDE_DIR TORCH_CPU_LIBRARY C10_LIBRARY)
    if(NOT ${part})
      message(FATAL_ERROR "LibTorch was not found (${part}). On Debian: apt-get install libtorch-dev; "
                          "elsewhere add its directory to CMAKE_PREFIX_PATH")
    endif()
  endforeach()
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${TORCH_INCLUDE_DIR}
                             ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
  target_link_libraries(${target} INTERFACE ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
endfunction()
