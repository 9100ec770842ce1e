# cmocka: the tests' framework. From the system only; its header does not tell its version, its .pc file does.
set(floor 1.1.5)

find_package(PkgConfig QUIET)
set(dep_cmocka_STATE "the system has none, or no pkg-config")
if(PkgConfig_FOUND)
    pkg_search_module(CMOCKA QUIET IMPORTED_TARGET GLOBAL cmocka>=${floor})
    if(TARGET PkgConfig::CMOCKA)
        add_library(dep_cmocka ALIAS PkgConfig::CMOCKA)
        set(dep_cmocka_STATE "system ${CMOCKA_VERSION}")
    endif()
endif()
channeld_require(dep_cmocka cmocka ${floor} "libcmocka-dev and pkg-config")
