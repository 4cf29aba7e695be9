# What `cmake --install` and CPack put below a prefix, which may be moved as a whole:
#
#   bin/                  tiercast and the programs
#   lib/tiercast/         Python: packages/ (ours), stubs/ (generated), site-packages/ (theirs)
#   share/tiercast/       VERSION, experiments/, p4src/: as in a checkout
#   share/doc/tiercast/   the documents, with their licence
#
# Two components, which are Debian packages of these names (`make deb`): tiercast, and tiercast-ns3,
# which is GPL-2.0-only, since it links ns-3.
include(GNUInstallDirs)
set(TIERCAST_SITE_PACKAGES "" CACHE PATH
  "a folder with what requirements.in names, to be installed, too (packaging/site_packages.sh)")
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME tiercast)

set(private lib/tiercast)
set(data ${CMAKE_INSTALL_DATADIR}/tiercast)

foreach(program
    tiercast-switch tiercast-switch-dpdk tiercast-send tiercast-recv tiercast-tester tiercast-host tiercast-delay-line tiercast-stf
    tiercast-marking tiercast-norm)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME)
  endif()
endforeach()
if(TARGET tiercast-ns3)
  install(TARGETS tiercast-ns3 RUNTIME COMPONENT tiercast-ns3)
  install(FILES ns3/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/tiercast-ns3 RENAME copyright
    COMPONENT tiercast-ns3)
endif()

install(PROGRAMS packaging/tiercast TYPE BIN)
install(DIRECTORY
  controller/tiercast_controller mininet/tiercast_lab tools/wire/tiercast_wire
  DESTINATION ${private}/packages PATTERN __pycache__ EXCLUDE)
install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND
  ${CMAKE_SOURCE_DIR}/.venv/bin/python ${CMAKE_SOURCE_DIR}/proto/generate_python.py
  \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${private}/stubs)")
if(TIERCAST_SITE_PACKAGES)
  install(DIRECTORY ${TIERCAST_SITE_PACKAGES}/ DESTINATION ${private}/site-packages
    USE_SOURCE_PERMISSIONS)
endif()

install(FILES VERSION DESTINATION ${data})
install(DIRECTORY experiments DESTINATION ${data})
install(DIRECTORY p4src DESTINATION ${data} FILES_MATCHING
  PATTERN *.p4 PATTERN *.manifest.yaml PATTERN compiled/* PATTERN __pycache__ EXCLUDE)
install(FILES tools/wire/tiercast.lua DESTINATION ${CMAKE_INSTALL_LIBDIR}/wireshark/plugins)
install(FILES LICENSE TYPE DOC RENAME copyright)
install(FILES README.md TYPE DOC)
install(DIRECTORY docs TYPE DOC)

# `make deb`
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR tiercast)
set(CPACK_PACKAGE_CONTACT "The tiercast authors <tiercast@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_THREADS 0)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL tiercast tiercast-ns3)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Libraries that wheels bring for themselves.
file(GLOB CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TIERCAST_SITE_PACKAGES}/*.libs)

set(CPACK_COMPONENT_TIERCAST_DESCRIPTION "laboratory for multicast congestion control
P4 switches, a DPDK sender and hosts as programs, ten schemes of multicast congestion control, and a
lab that runs experiments with them in Mininet, in real time, or (tiercast-ns3) in virtual time.")
set(CPACK_DEBIAN_TIERCAST_PACKAGE_NAME tiercast)
# Modules in site-packages are of this version of Python. DPDK loads its drivers when it starts; these
# are for interfaces of the kernel.
set(CPACK_DEBIAN_TIERCAST_PACKAGE_DEPENDS
  "python3 (>= 3.11), python3 (<< 3.12), iproute2, util-linux, librte-bus-vdev23, librte-mempool-ring23, librte-net-af-packet23")
set(CPACK_DEBIAN_TIERCAST_PACKAGE_RECOMMENDS "mininet, iputils-ping, tiercast-ns3 (= ${PROJECT_VERSION})")
# dpdk recommends the drivers of NICs; wireshark-common captures links.
set(CPACK_DEBIAN_TIERCAST_PACKAGE_SUGGESTS "dpdk, wireshark-common")
set(CPACK_DEBIAN_TIERCAST_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/packaging/postinst ${CMAKE_SOURCE_DIR}/packaging/prerm)

set(CPACK_COMPONENT_TIERCAST-NS3_DESCRIPTION "tiercast's runtime in virtual time, over ns-3
It makes `tiercast run --runtime ns3`, figures and sweeps work. GPL-2.0-only, since it links ns-3.")
set(CPACK_DEBIAN_TIERCAST-NS3_PACKAGE_NAME tiercast-ns3)
set(CPACK_DEBIAN_TIERCAST-NS3_PACKAGE_DEPENDS "tiercast (= ${PROJECT_VERSION})")
include(CPack)
