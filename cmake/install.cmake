# What `cmake --install` puts where (GNUInstallDirs). Components: runtime (the library), dev (to build with it), tune; runner is in
# cli/CMakeLists.txt, as boards have nothing else.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS lathe_runtime_shared EXPORT LatheTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(FILES ${CMAKE_SOURCE_DIR}/core/runtime/lathe.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

# CMake: find_package(Lathe COMPONENTS runtime), then link Lathe::runtime.
set(lathe_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Lathe)
install(EXPORT LatheTargets NAMESPACE Lathe:: DESTINATION ${lathe_package_dir} COMPONENT dev)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/LatheConfig.cmake.in ${CMAKE_BINARY_DIR}/LatheConfig.cmake
  INSTALL_DESTINATION ${lathe_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/LatheConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/LatheConfig.cmake ${CMAKE_BINARY_DIR}/LatheConfigVersion.cmake
  DESTINATION ${lathe_package_dir} COMPONENT dev)

# pkg-config: the prefix is found from where the file lies, so that an installed tree can be moved.
file(RELATIVE_PATH lathe_prefix_from_pc /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${CMAKE_CURRENT_LIST_DIR}/lathe-runtime.pc.in ${CMAKE_BINARY_DIR}/lathe-runtime.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lathe-runtime.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

install(TARGETS tune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tune)

# Man pages and completions are printed by `tune`, once it has the commands.
if(EXISTS ${CMAKE_SOURCE_DIR}/cli/commands/man.cpp AND EXISTS ${CMAKE_SOURCE_DIR}/cli/commands/completion.cpp)
  set(pages ${CMAKE_BINARY_DIR}/pages)
  file(MAKE_DIRECTORY ${pages})
  add_custom_command(OUTPUT ${pages}/done DEPENDS tune VERBATIM
    COMMAND tune man --out ${pages}/man1
    COMMAND tune completion bash > ${pages}/tune
    COMMAND tune completion zsh > ${pages}/_tune
    COMMAND tune completion fish > ${pages}/tune.fish
    COMMAND ${CMAKE_COMMAND} -E touch ${pages}/done)
  add_custom_target(tune_pages ALL DEPENDS ${pages}/done)
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tune)
  install(FILES ${pages}/tune DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tune)
  install(FILES ${pages}/_tune DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT tune)
  install(FILES ${pages}/tune.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tune)
endif()
