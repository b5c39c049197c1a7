# cohort_module(name SOURCES a.cc b.cc [LIBRARIES fmt::fmt ...] [ATEN])
# One folder of src/. Its objects become part of libcohort. ATEN: it calls the kernel library, and
# shares the precompiled header of that.
function(cohort_module name)
  cmake_parse_arguments(ARG "ATEN" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(cohort_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(cohort_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(cohort_${name} PRIVATE fmt::fmt ${ARG_LIBRARIES})
  if(ARG_ATEN)
    target_link_libraries(cohort_${name} PRIVATE cohort_torch)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      # In C++20 clang takes the other headers of ATen only behind this one.
      target_compile_options(cohort_${name} PRIVATE "SHELL:-include ATen/core/ivalue.h")
    elseif(TARGET cohort_pch)
      target_precompile_headers(cohort_${name} REUSE_FROM cohort_pch)
    endif()
  endif()
  # Reading headers takes most of the time: several files at once read them once.
  set_target_properties(cohort_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  set_property(GLOBAL APPEND PROPERTY COHORT_MODULES cohort_${name})
endfunction()

# cohort_test(name SOURCES ... [LABELS unit] [TIMEOUT 60] [TORCH | LIGHT]) one test program.
# LIGHT: it links cohort_light instead of the whole library.
function(cohort_test name)
  cmake_parse_arguments(ARG "TORCH;LIGHT" "TIMEOUT" "SOURCES;LABELS;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  set(library cohort::cohort)
  if(ARG_LIGHT)
    set(library cohort_light)
  endif()
  target_link_libraries(${name} PRIVATE ${library} GTest::gtest_main fmt::fmt ${ARG_LIBRARIES})
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE cohort_torch)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  # Members compare the lines that their calls come from.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                       ENVIRONMENT COHORT_CHECK_LOCKSTEP=1)
endfunction()
