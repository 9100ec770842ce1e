# llhttp: the HTTP/1 parser. Earlier versions (Debian 12 has 8.1.0) take "\r\n\rX" as two messages: never below.
set(floor 9.2.1)

channeld_find_system(dep_llhttp FLOOR ${floor} HEADERS llhttp.h LIBRARIES llhttp
    VERSION_HEADER llhttp.h VERSION_MACROS LLHTTP_VERSION_MAJOR LLHTTP_VERSION_MINOR LLHTTP_VERSION_PATCH)

if(NOT TARGET dep_llhttp)
    set(arch ${CMAKE_SYSTEM_PROCESSOR})
    string(REGEX REPLACE "^(x86_64|AMD64)$" "amd64" arch "${arch}")
    string(REGEX REPLACE "^aarch64$" "arm64" arch "${arch}")
    channeld_unpack_pinned(root "libllhttp-dev_.*_${arch}[.]deb" NAME llhttp FLOOR ${floor}
        STATE "${dep_llhttp_STATE}" PACKAGE libllhttp-dev)
    file(GLOB library "${root}/usr/lib/*/libllhttp.a")

    add_library(dep_llhttp INTERFACE IMPORTED GLOBAL)
    target_include_directories(dep_llhttp INTERFACE "${root}/usr/include")
    target_link_libraries(dep_llhttp INTERFACE "${library}")
    set(dep_llhttp_STATE "pinned archive (${dep_llhttp_STATE})")
endif()
channeld_require(dep_llhttp llhttp ${floor} libllhttp-dev)
