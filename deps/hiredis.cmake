# hiredis: sockets to Redis, and TLS for them (hiredis_ssl). Included as <hiredis/...>.
set(floor 1.2)

channeld_find_system(dep_hiredis FLOOR ${floor} LIBRARIES hiredis_ssl hiredis
    HEADERS hiredis/hiredis.h hiredis/hiredis_ssl.h
    VERSION_HEADER hiredis/hiredis.h VERSION_MACROS HIREDIS_MAJOR HIREDIS_MINOR HIREDIS_PATCH)

if(TARGET dep_hiredis)
    target_link_libraries(dep_hiredis INTERFACE dep_openssl)
else()
    channeld_unpack_pinned(root "hiredis_.*[.]orig[.]tar[.]gz" NAME hiredis FLOOR ${floor}
        STATE "${dep_hiredis_STATE}" PACKAGE libhiredis-dev)
    file(GLOB source "${root}/hiredis-*")
    channeld_third_party(hiredis_static ROOT "${source}"
        SOURCES alloc.c async.c hiredis.c net.c read.c sds.c sockcompat.c ssl.c)
    target_link_libraries(hiredis_static PUBLIC dep_openssl)
    # A bulk string that is announced with 2^63 - 1 bytes overflows a signed sum (redis/hiredis#1358). Let it wrap: only
    # tests use this parser, and the fuzz test gives it such input.
    set_source_files_properties("${source}/read.c" PROPERTIES COMPILE_OPTIONS -fwrapv)

    # The headers where an installed hiredis has them.
    file(COPY "${source}/" DESTINATION "${root}/include/hiredis"
        FILES_MATCHING PATTERN "*.h" PATTERN examples EXCLUDE PATTERN fuzzing EXCLUDE PATTERN .github EXCLUDE)

    add_library(dep_hiredis INTERFACE IMPORTED GLOBAL)
    target_include_directories(dep_hiredis INTERFACE "${root}/include")
    target_link_libraries(dep_hiredis INTERFACE hiredis_static)
    set(dep_hiredis_STATE "pinned archive (${dep_hiredis_STATE})")
endif()
channeld_require(dep_hiredis hiredis ${floor} libhiredis-dev)
