# The parts that are built and tested only where what they need is found. Each is looked for here, once;
# everything else asks COHORT_HAS_<NAME>. What was not found is listed, with its reason, in left_out.txt:
# checks.test_sources excuses the tests of these parts, and tools/left_out.py prints the list.
set(COHORT_LEFT_OUT ${PROJECT_BINARY_DIR}/left_out.txt)
file(WRITE ${COHORT_LEFT_OUT} "")

# cohort_optional(NAME found PART "what is left out" REASON "what was not found" REMEDY "how to get it"
#                 [TEST_SOURCES src/a/a_test.cc ...])
# Sets COHORT_HAS_<NAME>.
function(cohort_optional name found)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "PART;REASON;REMEDY" "TEST_SOURCES")
  set(has OFF)
  if(found)
    set(has ON)
  else()
    string(JOIN " " sources ${ARG_TEST_SOURCES})
    file(APPEND ${COHORT_LEFT_OUT} "${name}\t${ARG_PART}\t${ARG_REASON}\t${ARG_REMEDY}\t${sources}\n")
  endif()
  set(COHORT_HAS_${name} ${has} PARENT_SCOPE)
endfunction()

# cohort_python_with(module out) sets `out` to a Python that has the module, or to nothing. `make optional`
# makes the one in build/python.
function(cohort_python_with module out)
  set(${out} "" PARENT_SCOPE)
  foreach(python ${PROJECT_SOURCE_DIR}/build/python/bin/python3 ${Python3_EXECUTABLE} /usr/bin/python3)
    set(probe "import importlib.util, sys; sys.exit(importlib.util.find_spec('${module}') is None)")
    execute_process(COMMAND ${python} -c "${probe}" RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
    if(code EQUAL 0)
      set(${out} ${python} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX QUIET)
cohort_optional(MPI "${MPI_CXX_FOUND}"
  PART "cohort::mpi" REASON "no MPI was found"
  REMEDY "apt-get install libopenmpi-dev openmpi-bin"
  TEST_SOURCES src/mpi/mpi_test.cc)

if(COHORT_TESTS OR COHORT_BENCHMARKS)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  cohort_python_with(torch COHORT_PYTORCH_PYTHON)
  cohort_optional(PYTORCH "${COHORT_PYTORCH_PYTHON}"
    PART "comparisons with DistributedDataParallel" REASON "no python3 has the package torch"
    REMEDY "apt-get install python3-torch")
  cohort_python_with(tensorflow COHORT_TENSORFLOW_PYTHON)
  cohort_optional(TENSORFLOW "${COHORT_TENSORFLOW_PYTHON}"
    PART "comparisons with tf.distribute" REASON "no python3 has the package tensorflow"
    REMEDY "pip install tensorflow")
endif()

if(COHORT_TESTS)
  cohort_python_with(tensorboard COHORT_TENSORBOARD_PYTHON)
  cohort_optional(TENSORBOARD "${COHORT_TENSORBOARD_PYTHON}"
    PART "the test that TensorBoard reads summaries" REASON "no python3 has the package tensorboard"
    REMEDY "make optional")

  find_program(COHORT_CLANG clang++)
  cohort_optional(CLANG "${COHORT_CLANG}"
    PART "the check that clang takes the sources" REASON "no clang++ was found"
    REMEDY "apt-get install clang")

  find_program(COHORT_DOXYGEN doxygen)
  cohort_optional(DOXYGEN "${COHORT_DOXYGEN}"
    PART "the test that the site of the documents has no broken link" REASON "no doxygen was found"
    REMEDY "apt-get install doxygen")

  set(missing "")
  foreach(tool munged slurmctld slurmd srun sinfo)
    find_program(COHORT_TOOL_${tool} ${tool} PATHS /usr/sbin)
    if(NOT COHORT_TOOL_${tool})
      list(APPEND missing ${tool})
    endif()
  endforeach()
  string(COMPARE EQUAL "${missing}" "" all_found)
  string(JOIN ", " missing ${missing})
  cohort_optional(SLURM ${all_found}
    PART "the test of the Slurm resolver inside a real Slurm" REASON "not found: ${missing}"
    REMEDY "apt-get install slurmctld slurmd slurm-client munge")
endif()

if(COHORT_BENCHMARKS)
  pkg_check_modules(ZEROMQ QUIET IMPORTED_TARGET libzmq)
  cohort_optional(ZEROMQ "${ZEROMQ_FOUND}"
    PART "comparisons with ZeroMQ" REASON "no ZeroMQ was found" REMEDY "apt-get install libzmq3-dev")
  find_library(COHORT_GLOO gloo)
  cohort_optional(GLOO "${COHORT_GLOO}"
    PART "comparisons with Gloo" REASON "no Gloo was found" REMEDY "apt-get install libgloo-dev")
endif()
