# Zstandard: the coding zstd of response bodies. From the system only.
set(floor 1.5)

channeld_find_system(dep_zstd FLOOR ${floor} HEADERS zstd.h LIBRARIES zstd
    VERSION_HEADER zstd.h VERSION_MACROS ZSTD_VERSION_MAJOR ZSTD_VERSION_MINOR ZSTD_VERSION_RELEASE)
channeld_require(dep_zstd Zstandard ${floor} libzstd-dev)
