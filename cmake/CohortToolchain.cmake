# Compiler settings and the packages that the library stands on.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_options(-Wall -Wextra -Wshadow -Werror -fno-plt)
# Nobody reads errno after sqrt or traps on NaN; without them loops vectorise.
add_compile_options(-fno-math-errno -fno-trapping-math)
add_link_options(-fuse-ld=lld)

if(COHORT_SANITIZE)
  add_compile_options(-fsanitize=${COHORT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${COHORT_SANITIZE})
  if(COHORT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # A precompiled header's time stamp is not part of what it means.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)

# LibTorch's own CMake package drags in OpenCV, protobuf and compiler flags; the three libraries are
# all that is used of it.
find_path(TORCH_INCLUDE_DIR ATen/ATen.h REQUIRED)
find_library(TORCH_CPU_LIBRARY torch_cpu REQUIRED)
find_library(TORCH_LIBRARY torch REQUIRED)
find_library(C10_LIBRARY c10 REQUIRED)
add_library(cohort_torch INTERFACE)
target_include_directories(cohort_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIR}
                           ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_libraries(cohort_torch INTERFACE ${TORCH_CPU_LIBRARY} ${C10_LIBRARY})
