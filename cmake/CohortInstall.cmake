# What `cmake --install` puts in place: headers, libcohort.so, the command, and the two descriptions by which other
# builds find them (find_package(cohort) and pkg-config).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(TARGETS cohort EXPORT cohort LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Documents name examples by their paths, so the two lie beside each other.
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/cohort)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/cohort)

# The command, and what it starts or loads, which is nobody else's.
file(RELATIVE_PATH library_from_compute /prefix/${CMAKE_INSTALL_LIBEXECDIR}/cohort /prefix/${CMAKE_INSTALL_LIBDIR})
set_target_properties(cohort_compute PROPERTIES INSTALL_RPATH "$ORIGIN/${library_from_compute}")
install(TARGETS cohort_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS cohort_compute RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cohort)
install(TARGETS cohort_crash_report LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/cohort)

if(TARGET cohort_mpi)
  install(TARGETS cohort_mpi EXPORT cohort LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT cohort NAMESPACE cohort:: FILE cohort-targets.cmake DESTINATION ${package_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cohort-config.cmake.in
                              ${PROJECT_BINARY_DIR}/cohort-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohort-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cohort-config.cmake
              ${PROJECT_BINARY_DIR}/cohort-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/CohortTorch.cmake
              ${PROJECT_SOURCE_DIR}/cmake/torch_probe.cc
        DESTINATION ${package_dir})

# A LibTorch outside the system's directories stays where it is: the library and programs are told where that is, and
# links to its own headers are installed.
set(torch_headers ${COHORT_TORCH_HEADERS})
set(torch_rpath "")
if(NOT COHORT_TORCH_HEADERS STREQUAL COHORT_TORCH_INCLUDE)
  cmake_path(GET COHORT_TORCH_CPU PARENT_PATH torch_directory)
  set_target_properties(cohort PROPERTIES INSTALL_RPATH ${torch_directory})
  set(torch_rpath " -Wl,-rpath,${torch_directory}")
  install(DIRECTORY ${COHORT_TORCH_HEADERS}/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/cohort/torch_headers)
  set(torch_headers "\${libdir}/cohort/torch_headers")
endif()

# cohort.pc finds its prefix from where it lies, so that the installed tree may be moved.
file(RELATIVE_PATH prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
foreach(package cohort cohort-torch)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${package}.pc.in ${PROJECT_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
