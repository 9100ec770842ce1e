# libuv: event loop, sockets, timers, threads. From the system only.
set(floor 1.44)

channeld_find_system(dep_uv FLOOR ${floor} HEADERS uv.h LIBRARIES uv
    VERSION_HEADER uv/version.h VERSION_MACROS UV_VERSION_MAJOR UV_VERSION_MINOR UV_VERSION_PATCH)
channeld_require(dep_uv libuv ${floor} libuv1-dev)
