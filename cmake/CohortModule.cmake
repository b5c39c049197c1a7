# cohort_module(name SOURCES a.cc b.cc [LIBRARIES fmt::fmt ...] [ATEN])
# One directory of src/. Its objects become part of libcohort. ATEN: it calls the kernel library, and
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
  # Reading headers takes most of the time: several files at once read them once. Inline functions are
  # not exported, because each program has its own. Their static variables still are, and stay one.
  set_target_properties(cohort_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8
                        VISIBILITY_INLINES_HIDDEN ON)
  set_property(GLOBAL APPEND PROPERTY COHORT_MODULES cohort_${name})
endfunction()

# The headers that most tests include, precompiled once for all test programs: cohort_test_pch, and
# cohort_torch_test_pch with the kernel library for programs that say TORCH.
function(cohort_test_headers)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  foreach(name cohort_test_pch cohort_torch_test_pch)
    add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/src/pch.cc)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_link_libraries(${name} PRIVATE GTest::gtest fmt::fmt)
    target_precompile_headers(${name} PRIVATE <cohort/cohort.h> <gtest/gtest.h>)
    # As programs are compiled; a header precompiled with other options is not used.
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${name} PRIVATE -fPIE)
  endforeach()
  target_link_libraries(cohort_torch_test_pch PRIVATE cohort_torch)
  target_precompile_headers(cohort_torch_test_pch PRIVATE <ATen/ATen.h>)
endfunction()

# The tests of what touches LibTorch: `make torch2` builds these, and runs those with the label libtorch.
set(COHORT_LIBTORCH_TESTS
  tensor_test kernels_test reduce_ops_test random_test shape_ops_test state_ops_test nn_ops_test image_ops_test
  promotion_test autodiff_test in_place_test variables_test nn_test optim_test distribute_test
  strategy_variables_test cross_device_test op_conformance_test torch_interop_test steady_torch_calls_test)

# cohort_test(name SOURCES ... [SEPARATE ...] [LABELS unit] [TIMEOUT 60] [TORCH | LIGHT]) one test
# program. LIGHT: it links cohort_light instead of the whole library. SEPARATE: those of the sources
# that are compiled alone, because they use a name that another source of the program uses, too.
function(cohort_test name)
  cmake_parse_arguments(ARG "TORCH;LIGHT" "TIMEOUT" "SOURCES;SEPARATE;LABELS;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * ${COHORT_TIME_LIMIT_FACTOR}")
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  set(library cohort::cohort)
  set(headers cohort_test_pch)
  if(ARG_LIGHT)
    set(library cohort_light)
    set(headers)
  endif()
  target_link_libraries(${name} PRIVATE ${library} GTest::gtest_main fmt::fmt ${ARG_LIBRARIES})
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE cohort_torch)
    set(headers cohort_torch_test_pch)
  endif()
  if(TARGET "${headers}")
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  if(ARG_SEPARATE)
    set_source_files_properties(${ARG_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if(name IN_LIST COHORT_LIBTORCH_TESTS)
    list(APPEND ARG_LABELS libtorch)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
