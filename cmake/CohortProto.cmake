# cohort_proto(out name...) generates C++ for proto/cohort/<name>.proto and sets `out` to the sources.
# Include the headers as "cohort/<name>.pb.h"; cohort_use_proto(target) makes them visible.
#
# The files have names with a directory, because libraries that LibTorch loads register bare ones such as
# graph.proto, and protobuf ends the program when two files have one name.
set(COHORT_PROTO_DIR ${PROJECT_BINARY_DIR}/proto)

function(cohort_proto out)
  set(sources "")
  foreach(name ${ARGN})
    set(made ${COHORT_PROTO_DIR}/cohort/${name}.pb)
    set(imports "")
    if(name MATCHES "^(data|graph)$")
      set(imports ${PROJECT_SOURCE_DIR}/proto/cohort/tensor.proto)
    endif()
    add_custom_command(
      OUTPUT ${made}.cc ${made}.h
      COMMAND ${CMAKE_COMMAND} -E make_directory ${COHORT_PROTO_DIR}
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR}/proto
              --cpp_out=${COHORT_PROTO_DIR} cohort/${name}.proto
      DEPENDS ${PROJECT_SOURCE_DIR}/proto/cohort/${name}.proto ${imports}
      VERBATIM)
    list(APPEND sources ${made}.cc)
  endforeach()
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -w)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

function(cohort_use_proto target)
  target_include_directories(${target} SYSTEM PUBLIC ${COHORT_PROTO_DIR})
  target_link_libraries(${target} PRIVATE protobuf::libprotobuf)
  add_dependencies(${target} cohort_tensor_message)
endfunction()
