# libdeflate: gzip of response bodies. From the system only.
set(floor 1.14)

channeld_find_system(dep_libdeflate FLOOR ${floor} HEADERS libdeflate.h LIBRARIES deflate
    VERSION_HEADER libdeflate.h VERSION_MACROS LIBDEFLATE_VERSION_MAJOR LIBDEFLATE_VERSION_MINOR)
channeld_require(dep_libdeflate libdeflate ${floor} libdeflate-dev)
