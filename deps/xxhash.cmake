# xxHash: entity tags. XXH3 is settled since 0.8: the same bytes have the same tag in every version. From the system
# only.
set(floor 0.8)

channeld_find_system(dep_xxhash FLOOR ${floor} HEADERS xxhash.h LIBRARIES xxhash
    VERSION_HEADER xxhash.h VERSION_MACROS XXH_VERSION_MAJOR XXH_VERSION_MINOR XXH_VERSION_RELEASE)
channeld_require(dep_xxhash xxHash ${floor} libxxhash-dev)

# Where the library has them: hashes of long texts by the widest vectors of the processor that the program runs on.
include(CheckSymbolExists)
set(CMAKE_REQUIRED_LIBRARIES dep_xxhash)
check_symbol_exists(XXH3_128bits_dispatch xxh_x86dispatch.h CHANNELD_XXHASH_DISPATCH)
unset(CMAKE_REQUIRED_LIBRARIES)
if(CHANNELD_XXHASH_DISPATCH)
    target_compile_definitions(dep_xxhash INTERFACE XXHASH_DISPATCH)
endif()
