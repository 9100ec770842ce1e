# The Debian package: `cmake --workflow --preset package`, or `cpack -G DEB` in the folder of any Release build. It holds all
# that Install.cmake installs, under /usr and /etc; what is Debian's alone is in deploy/debian.

set(CHANNELD_PACKAGE_REVISION 1 CACHE STRING "The package's own number behind the version: 0.1.0-REVISION~deb12")
set(CHANNELD_PACKAGE_MAINTAINER "The channeld authors <maintainers@channeld.example>" CACHE STRING
    "Who answers for the package: Name <address>")

# A package is made for the release that it is built on, and says so, so that the one of a newer release is an upgrade.
set(CPACK_CHANNELD_DISTRIBUTION unstable)
set(suffix)
if(EXISTS /etc/os-release)
    file(STRINGS /etc/os-release lines REGEX "^(ID|VERSION_ID|VERSION_CODENAME)=")
    foreach(line IN LISTS lines)
        string(REGEX MATCH "^([A-Z_]+)=\"?([^\"]*)" line "${line}")
        set(os_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
    endforeach()
    string(REGEX REPLACE "^debian$" "deb" os_ID "${os_ID}")
    if(os_VERSION_ID)
        set(suffix "~${os_ID}${os_VERSION_ID}")
    endif()
    if(os_VERSION_CODENAME)
        set(CPACK_CHANNELD_DISTRIBUTION "${os_VERSION_CODENAME}")
    endif()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_MONOLITHIC_INSTALL ON)
set(CPACK_SET_DESTDIR ON)          # the environment file is outside the prefix
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_THREADS 1)               # the same bytes on any machine

set(CPACK_CHANNELD_DEBIAN "${PROJECT_SOURCE_DIR}/deploy/debian")
set(CPACK_CHANNELD_SOURCE "${PROJECT_SOURCE_DIR}")
set(CPACK_PROJECT_CONFIG_FILE "${CPACK_CHANNELD_DEBIAN}/config.cmake")
set(CPACK_PRE_BUILD_SCRIPTS "${CPACK_CHANNELD_DEBIAN}/stage.cmake")
set(CPACK_POST_BUILD_SCRIPTS "${CPACK_CHANNELD_DEBIAN}/finish.cmake")

set(CPACK_PACKAGE_NAME channeld)
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Channel Analytics Read API over Redis")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "\
channeld is a read-only JSON API over HTTP for the public channels of a
messenger: pages of the list, a channel by its id, a channel by its link. It
reads Redis or Valkey, and caches responses until Redis reports a change, so
cached responses are current.
.
The package has the server, the tool channelctl, which loads channels and
issues API keys, and units for systemd. Installing it enables and starts
neither unit: set the address of Redis in /etc/channeld/channeld.env first.")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE "${CHANNELD_PACKAGE_REVISION}${suffix}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${CHANNELD_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "redis-server | valkey-server")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA)
foreach(file IN ITEMS conffiles postinst prerm postrm)
    list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${CPACK_CHANNELD_DEBIAN}/${file}")
endforeach()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE amd64)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()
# A cross-build has its own.
set(CPACK_AR_EXECUTABLE "${CMAKE_AR}")
set(CPACK_OBJCOPY_EXECUTABLE "${CMAKE_OBJCOPY}")
set(CPACK_READELF_EXECUTABLE "${CMAKE_READELF}")

include(CPack)
