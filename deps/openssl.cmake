# OpenSSL: SHA-256 of API keys, TLS to Redis. From the system only.
set(floor 3.0)

channeld_find_system(dep_openssl FLOOR ${floor} HEADERS openssl/ssl.h openssl/evp.h LIBRARIES ssl crypto
    VERSION_HEADER openssl/opensslv.h
    VERSION_MACROS OPENSSL_VERSION_MAJOR OPENSSL_VERSION_MINOR OPENSSL_VERSION_PATCH)
channeld_require(dep_openssl OpenSSL ${floor} libssl-dev)
