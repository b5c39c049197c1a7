# Compiler settings and the packages that the library stands on.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_compile_options(-Wall -Wextra -Wshadow -fno-plt)
# Nobody reads errno after sqrt or traps on NaN; without them loops vectorise.
add_compile_options(-fno-math-errno -fno-trapping-math)
# See src/base/mutex.h.
add_compile_definitions($<$<NOT:$<CONFIG:Release>>:COHORT_CHECK_LOCKS>)
if(COHORT_WERROR)
  add_compile_options(-Werror)
endif()

find_program(LLD NAMES ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(COHORT_SANITIZE)
  add_compile_options(-fsanitize=${COHORT_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${COHORT_SANITIZE})
  if(COHORT_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It warns of fences, which ThreadSanitizer does not model. Ours stand between atomics only.
    add_compile_options(-Wno-tsan)
  endif()
  if(COHORT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()

if(COHORT_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "COHORT_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++")
  endif()
  # The library itself tells libFuzzer which of its branches an input reached.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Dependencies instead of a preprocessor run (ATen is large); a precompiled header's time stamp is
  # not part of what it means.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

set(COHORT_TORCH "" CACHE STRING "The version that LibTorch must have, for example 2 or 2.15; any when empty")
include(CohortTorch)
cohort_find_torch(cohort_torch VERSION "${COHORT_TORCH}" OWNER "This build (COHORT_TORCH) expects")
cohort_search_outside_torch()

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ZLIB REQUIRED)
find_package(Protobuf REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
find_package(OpenSSL REQUIRED)
# gRPC's own CMake package looks for six others that nothing here uses.
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc++)
add_library(cohort_grpc INTERFACE)
target_link_libraries(cohort_grpc INTERFACE PkgConfig::GRPC)
