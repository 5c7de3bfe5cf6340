# The target `installable`, then `cmake --install BUILD --prefix P` (which is `make install PREFIX=P`): the
# program, and what find_package(lockstep) needs to make the target lockstep::lockstep of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
foreach(library IN ITEMS flags torch core compression transport collectives strategies parallel data measure replica models
                         cluster protocol train lockstep)
  set_target_properties(lockstep_${library} PROPERTIES EXPORT_NAME ${library})
  install(TARGETS lockstep_${library} EXPORT lockstep ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstepTargets.cmake DESTINATION ${package})

write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/lockstepConfig.cmake
              ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${package})

install(CODE "set(source ${CMAKE_SOURCE_DIR}/src)")
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/install_headers.cmake)

install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# All that is installed, and nothing else: whoever built the program alone has not built the library.
add_custom_target(installable DEPENDS lockstep lockstep_lockstep)
