# xxHash: entity tags. XXH3 is settled since 0.8: the same bytes have the same tag in every version. From the system
# only.
set(floor 0.8)

channeld_find_system(dep_xxhash FLOOR ${floor} HEADERS xxhash.h LIBRARIES xxhash
    VERSION_HEADER xxhash.h VERSION_MACROS XXH_VERSION_MAJOR XXH_VERSION_MINOR XXH_VERSION_RELEASE)
channeld_require(dep_xxhash xxHash ${floor} libxxhash-dev)
