# yyjson: reading and writing JSON.
set(floor 0.8)

channeld_find_system(dep_yyjson FLOOR ${floor} HEADERS yyjson.h LIBRARIES yyjson
    VERSION_HEADER yyjson.h VERSION_MACROS YYJSON_VERSION_MAJOR YYJSON_VERSION_MINOR YYJSON_VERSION_PATCH)

if(NOT TARGET dep_yyjson)
    channeld_unpack_pinned(root "yyjson_.*[.]orig[.]tar[.]xz" NAME yyjson FLOOR ${floor}
        STATE "${dep_yyjson_STATE}" PACKAGE libyyjson-dev)
    file(GLOB source "${root}/*yyjson-*/src")
    channeld_third_party(yyjson_static ROOT "${source}" SOURCES yyjson.c)

    add_library(dep_yyjson INTERFACE IMPORTED GLOBAL)
    target_include_directories(dep_yyjson INTERFACE "${source}")
    target_link_libraries(dep_yyjson INTERFACE yyjson_static)
    set(dep_yyjson_STATE "pinned archive (${dep_yyjson_STATE})")
endif()
channeld_require(dep_yyjson yyjson ${floor} libyyjson-dev)
