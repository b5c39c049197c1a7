# cohort_find_torch(target [VERSION 2.15.0] [INCLUDE dir LIBRARIES torch_cpu c10] [OWNER text]) makes the
# interface library `target`: LibTorch's headers and libraries. Used by this build, and installed for
# programs that include <cohort/torch.h>.
#
# VERSION: what LibTorch's version must begin with. INCLUDE, LIBRARIES: where an installed Cohort found it;
# CMAKE_PREFIX_PATH goes before. OWNER: who wants that version, for the error.
#
# LibTorch's own CMake package drags in OpenCV, protobuf, the CUDA toolkit and compiler flags; headers and
# libraries are all that is used of it. Its variables C10_LIBRARY and TORCH_… are left to it.
set(COHORT_TORCH_OLDEST 1.13)
set(COHORT_TORCH_PROBE ${CMAKE_CURRENT_LIST_DIR}/torch_probe.cc)

function(cohort_find_torch target)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "VERSION;INCLUDE;OWNER" "LIBRARIES")
  cohort_locate_torch("${ARG_INCLUDE}" "${ARG_LIBRARIES}")
  cohort_torch_header_version(${COHORT_TORCH_INCLUDE} version)
  cohort_check_torch_version("${version}" "${ARG_VERSION}" "${ARG_OWNER}")
  cohort_probe_torch(${version})
  cohort_torch_headers(${version} headers)
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} SYSTEM INTERFACE ${headers} ${headers}/torch/csrc/api/include)
  target_link_libraries(${target} INTERFACE ${COHORT_TORCH_CPU} ${COHORT_TORCH_C10})
  set(COHORT_TORCH_VERSION ${version} PARENT_SCOPE)
  set(COHORT_TORCH_HEADERS ${headers} PARENT_SCOPE)
endfunction()

# Ends the configuration, and forgets what was found, so that the next one searches again.
function(cohort_torch_error)
  foreach(part INCLUDE CPU C10)
    unset(COHORT_TORCH_${part} CACHE)
  endforeach()
  set(text "")
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE ${last}) # and not ${ARGN}, from which semicolons disappear
    string(APPEND text "${ARGV${i}}")
  endforeach()
  message(FATAL_ERROR "${text}")
endfunction()

# Sets COHORT_TORCH_INCLUDE, COHORT_TORCH_CPU and COHORT_TORCH_C10, in the cache.
function(cohort_locate_torch include libraries)
  set(library_hints "")
  foreach(library ${libraries})
    cmake_path(GET library PARENT_PATH directory)
    list(APPEND library_hints ${directory})
  endforeach()
  find_path(COHORT_TORCH_INCLUDE ATen/ATen.h HINTS ${include})
  find_library(COHORT_TORCH_CPU torch_cpu HINTS ${library_hints})
  find_library(COHORT_TORCH_C10 c10 HINTS ${library_hints})
  mark_as_advanced(COHORT_TORCH_INCLUDE COHORT_TORCH_CPU COHORT_TORCH_C10)
  foreach(part COHORT_TORCH_INCLUDE COHORT_TORCH_CPU COHORT_TORCH_C10)
    if(NOT ${part})
      cohort_torch_error("LibTorch was not found (${part}). On Debian: apt-get install libtorch-dev; "
                         "elsewhere add its directory to CMAKE_PREFIX_PATH")
    endif()
  endforeach()
endfunction()

# Sets `out` to the version that the headers state. Newer ones state it in torch/headeronly.
function(cohort_torch_header_version include out)
  set(version "")
  foreach(file headeronly/version.h csrc/api/include/torch/version.h)
    if(EXISTS ${include}/torch/${file} AND NOT version)
      file(STRINGS ${include}/torch/${file} lines REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) [0-9]+")
      string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
      string(JOIN "." version ${numbers})
    endif()
  endforeach()
  if(NOT version)
    cohort_torch_error("${include}/torch has no version.h that says which LibTorch this is. Expected the headers of "
                       "LibTorch ${COHORT_TORCH_OLDEST} or later. Add the directory of a complete LibTorch to "
                       "CMAKE_PREFIX_PATH")
  endif()
  set(${out} ${version} PARENT_SCOPE)
endfunction()

function(cohort_check_torch_version found wanted owner)
  if(found VERSION_LESS COHORT_TORCH_OLDEST)
    cohort_torch_error("Cohort needs LibTorch ${COHORT_TORCH_OLDEST} or later; found ${found} in "
                       "${COHORT_TORCH_INCLUDE}. Add the directory of a later one to CMAKE_PREFIX_PATH")
  endif()
  if(wanted AND NOT "${found}." MATCHES "^${wanted}\\.")
    cohort_torch_error("${owner} LibTorch ${wanted}; found ${found} in ${COHORT_TORCH_INCLUDE}. Put the directory of "
                       "LibTorch ${wanted} first in CMAKE_PREFIX_PATH (for the preset torch2, scripts/setup.sh --torch2 "
                       "fetches it), or build Cohort with ${found}")
  endif()
endfunction()

# Links and runs a program with the libraries. What it finds out is kept in the cache, as long as headers
# and libraries are the same.
function(cohort_probe_torch header_version)
  set(probed "${COHORT_TORCH_INCLUDE};${COHORT_TORCH_CPU};${COHORT_TORCH_C10};${header_version}")
  if(CMAKE_CROSSCOMPILING OR "${COHORT_TORCH_PROBED}" STREQUAL "${probed}")
    return()
  endif()
  cohort_refuse_old_abi()
  unset(COHORT_TORCH_LINKS CACHE)
  unset(COHORT_TORCH_RUNS CACHE)
  try_run(COHORT_TORCH_RUNS COHORT_TORCH_LINKS SOURCES ${COHORT_TORCH_PROBE}
          LINK_LIBRARIES ${COHORT_TORCH_CPU} ${COHORT_TORCH_C10}
          COMPILE_OUTPUT_VARIABLE link_output RUN_OUTPUT_VARIABLE run_output)
  set(where "the LibTorch of ${COHORT_TORCH_CPU}")
  if(NOT COHORT_TORCH_LINKS)
    string(REGEX MATCH "undefined (symbol: |reference to )[^\n]*" missing "${link_output}")
    cohort_torch_error("A program cannot be linked with ${where}: ${missing}. Expected a complete LibTorch for C++. "
                       "Use libtorch-dev of Debian or scripts/setup.sh --torch2. The linker said:\n${link_output}")
  endif()
  if(NOT COHORT_TORCH_RUNS EQUAL 0)
    cohort_torch_error("A program that is linked with ${where} does not start. Install what it misses, or use "
                       "libtorch-dev of Debian or scripts/setup.sh --torch2. The program said:\n${run_output}")
  endif()
  if(NOT run_output MATCHES "TORCH_VERSION=${header_version}[^0-9]")
    string(REGEX MATCH "TORCH_VERSION=([^,\n]*)" ignored "${run_output}")
    cohort_torch_error("Two LibTorch were found: headers of ${header_version} in ${COHORT_TORCH_INCLUDE}, and "
                       "the library ${COHORT_TORCH_CPU} of ${CMAKE_MATCH_1}. Expected one. Set CMAKE_PREFIX_PATH to "
                       "the directory that has both")
  endif()
  set(COHORT_TORCH_PROBED "${probed}" CACHE INTERNAL "the LibTorch that a program was linked with")
endfunction()

# Early wheels were built with the old ABI of libstdc++, whose std::string has the mangled name Ss.
function(cohort_refuse_old_abi)
  if(NOT CMAKE_NM)
    return()
  endif()
  execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${COHORT_TORCH_C10} OUTPUT_VARIABLE symbols ERROR_QUIET)
  if(symbols MATCHES "_ZN3c105ErrorC[12]ENS_14SourceLocationESs")
    cohort_torch_error("${COHORT_TORCH_C10} was built with the old ABI of libstdc++ (_GLIBCXX_USE_CXX11_ABI=0). "
                       "Expected the new one, with which Cohort and Debian's libraries are built. Use "
                       "libtorch-dev of Debian, scripts/setup.sh --torch2, or the cxx11 ABI download of LibTorch")
  endif()
endfunction()

# Sets `out` to a directory with LibTorch's headers. Its downloads bring headers of others along (fmt,
# protobuf, pybind11), which would hide the system's: of such a directory only LibTorch's own are shown. The
# version is part of the name, so that another LibTorch at the same place compiles everything anew.
function(cohort_torch_headers version out)
  set(${out} ${COHORT_TORCH_INCLUDE} PARENT_SCOPE)
  if(COHORT_TORCH_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    return()
  endif()
  set(headers ${CMAKE_BINARY_DIR}/torch_headers/${version})
  file(MAKE_DIRECTORY ${headers})
  foreach(directory ATen c10 caffe2 torch)
    file(CREATE_LINK ${COHORT_TORCH_INCLUDE}/${directory} ${headers}/${directory} SYMBOLIC)
  endforeach()
  set(${out} ${headers} PARENT_SCOPE)
endfunction()

# Makes CMake look for other packages elsewhere: a directory that is LibTorch's alone has a protoc and the
# headers of a protobuf, without the library.
macro(cohort_search_outside_torch)
  cmake_path(GET COHORT_TORCH_INCLUDE PARENT_PATH torch_root)
  if(NOT EXISTS ${torch_root}/lib/pkgconfig AND NOT EXISTS ${torch_root}/lib/cmake)
    list(APPEND CMAKE_IGNORE_PREFIX_PATH ${torch_root})
  endif()
endmacro()

# Called when a project that found an installed Cohort has been configured: find_package(Torch) may have
# brought in another LibTorch, and a process cannot have two.
function(cohort_refuse_other_torch version)
  set(directories "")
  foreach(target torch_cpu torch)
    if(TARGET ${target})
      get_target_property(include ${target} INTERFACE_INCLUDE_DIRECTORIES)
      list(APPEND directories ${include})
    endif()
  endforeach()
  foreach(directory ${directories})
    if(NOT EXISTS ${directory}/ATen/ATen.h)
      continue()
    endif()
    cohort_torch_header_version(${directory} other)
    if(NOT other VERSION_EQUAL version)
      cohort_torch_error("Two LibTorch in one program: Cohort was built with ${version}, and this project also uses "
                         "${other} in ${directory}. Let find_package(Torch) find ${version}, or build Cohort with "
                         "${other} (-DCMAKE_PREFIX_PATH=<its directory>)")
    endif()
  endforeach()
endfunction()
