# The libraries we stand on. deps/<library>.cmake each make one target, dep_<library>: from the system where its
# version is at or above the floor, otherwise from the pinned archive that scripts/setup fetched.

set(CHANNELD_DEPS_DIR "${PROJECT_SOURCE_DIR}/build/deps" CACHE PATH "Folder of the archives that scripts/setup fetches")

# Sets OUT to the version that three #define lines of HEADER make; each macro's value is a number.
function(channeld_header_version OUT HEADER)
    set(version)
    foreach(macro IN LISTS ARGN)
        file(STRINGS "${HEADER}" line REGEX "^[ \t]*#[ \t]*define[ \t]+${macro}[ \t]+[0-9]+" LIMIT_COUNT 1)
        string(REGEX REPLACE "^.*${macro}[ \t]+([0-9]+).*$" "\\1" number "${line}")
        list(APPEND version "${number}")
    endforeach()
    list(JOIN version "." version)
    set(${OUT} "${version}" PARENT_SCOPE)
endfunction()

# channeld_find_system(TARGET FLOOR 1.2 HEADERS a.h b.h LIBRARIES a b VERSION_HEADER v.h VERSION_MACROS MAJOR MINOR PATCH)
#
# Makes the imported TARGET if all headers and libraries are there and VERSION_HEADER says FLOOR or later. Always
# sets TARGET_STATE in the caller to what was seen: "system 1.44.2", "the system's 0.14.1 is too old", ...
function(channeld_find_system TARGET)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "FLOOR;VERSION_HEADER" "HEADERS;LIBRARIES;VERSION_MACROS")
    set(${TARGET}_STATE "the system has none" PARENT_SCOPE)

    # Looked for anew at each configure (NO_CACHE): packages come and go between two of them.
    unset(include_dir)
    find_path(include_dir "${arg_VERSION_HEADER}" NO_CACHE)
    if(NOT include_dir)
        return()
    endif()
    channeld_header_version(version "${include_dir}/${arg_VERSION_HEADER}" ${arg_VERSION_MACROS})
    if(version VERSION_LESS arg_FLOOR)
        set(${TARGET}_STATE "the system's ${version} is too old" PARENT_SCOPE)
        return()
    endif()

    foreach(header IN LISTS arg_HEADERS)
        if(NOT EXISTS "${include_dir}/${header}")
            set(${TARGET}_STATE "the system's ${version} lacks ${header}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(libraries)
    foreach(name IN LISTS arg_LIBRARIES)
        unset(library)
        find_library(library "${name}" NO_CACHE)
        if(NOT library)
            set(${TARGET}_STATE "the system's ${version} lacks lib${name}" PARENT_SCOPE)
            return()
        endif()
        list(APPEND libraries "${library}")
    endforeach()

    add_library(${TARGET} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${TARGET} INTERFACE "${include_dir}")
    target_link_libraries(${TARGET} INTERFACE ${libraries})
    set(${TARGET}_STATE "system ${version}" PARENT_SCOPE)
endfunction()

# Unpacks the archive that deps/pins names with a line matching PATTERN into the build folder, after checking its
# SHA-256, and sets OUT to where. NAME, FLOOR, STATE and PACKAGE are for the error message.
function(channeld_unpack_pinned OUT PATTERN)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "NAME;FLOOR;STATE;PACKAGE" "")
    set(need "${arg_NAME} ${arg_FLOOR} or later is needed (${arg_STATE})")
    set(how "Run scripts/setup, or install ${arg_PACKAGE} in version ${arg_FLOOR} or later.")

    set(pins "${PROJECT_SOURCE_DIR}/deps/pins")
    set_property(DIRECTORY "${PROJECT_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${pins}")
    file(STRINGS "${pins}" line REGEX "^[0-9a-f]+  ${PATTERN}$")
    if(NOT line MATCHES "^([0-9a-f]+)  ([^ ]+)$")
        message(FATAL_ERROR "${need}, and deps/pins has no archive for ${CMAKE_SYSTEM_PROCESSOR}.\n"
            "Install ${arg_PACKAGE} in version ${arg_FLOOR} or later.")
    endif()
    set(pinned "${CMAKE_MATCH_1}")
    set(archive "${CHANNELD_DEPS_DIR}/${CMAKE_MATCH_2}")
    if(NOT EXISTS "${archive}")
        message(FATAL_ERROR "${need}, and ${archive} is not there.\n${how}")
    endif()
    file(SHA256 "${archive}" actual)
    if(NOT actual STREQUAL pinned)
        message(FATAL_ERROR "${archive} is not the pinned archive.\n"
            "SHA-256 in deps/pins: ${pinned}\nSHA-256 of the file:  ${actual}\nRun scripts/setup, which fetches it again.")
    endif()

    # The stamp tells which archive the folder came from, so that a later configure leaves it alone.
    set(folder "${PROJECT_BINARY_DIR}/deps/${arg_NAME}")
    set(stamp "${folder}/${pinned}.stamp")
    if(NOT EXISTS "${stamp}")
        file(REMOVE_RECURSE "${folder}")
        file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${folder}")
        if(EXISTS "${folder}/data.tar.xz") # a Debian package is an archive around this one
            file(ARCHIVE_EXTRACT INPUT "${folder}/data.tar.xz" DESTINATION "${folder}")
        endif()
        file(TOUCH "${stamp}")
    endif()
    set(${OUT} "${folder}" PARENT_SCOPE)
endfunction()

# channeld_third_party(NAME ROOT dir SOURCES ...): a static library of someone else's C, quiet, but hardened and
# sanitized as ours is.
function(channeld_third_party NAME)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "ROOT" "SOURCES")
    list(TRANSFORM arg_SOURCES PREPEND "${arg_ROOT}/")
    add_library(${NAME} STATIC ${arg_SOURCES})
    set_target_properties(${NAME} PROPERTIES C_EXTENSIONS ON EXPORT_COMPILE_COMMANDS OFF)
    target_compile_options(${NAME} PRIVATE -w)
    target_link_libraries(${NAME} PRIVATE channeld_hardening channeld_sanitizers)
endfunction()

# Says where TARGET comes from, and stops if it comes from nowhere.
function(channeld_require TARGET NAME FLOOR PACKAGE)
    if(NOT TARGET ${TARGET})
        message(FATAL_ERROR "${NAME} ${FLOOR} or later is needed (${${TARGET}_STATE}).\n"
            "Run scripts/setup, or install ${PACKAGE}.")
    endif()
    message(STATUS "${NAME}: ${${TARGET}_STATE}")
endfunction()

include(${PROJECT_SOURCE_DIR}/deps/openssl.cmake)
include(${PROJECT_SOURCE_DIR}/deps/libuv.cmake)
include(${PROJECT_SOURCE_DIR}/deps/xxhash.cmake)
include(${PROJECT_SOURCE_DIR}/deps/libdeflate.cmake)
include(${PROJECT_SOURCE_DIR}/deps/zstd.cmake)
include(${PROJECT_SOURCE_DIR}/deps/llhttp.cmake)
include(${PROJECT_SOURCE_DIR}/deps/hiredis.cmake)
include(${PROJECT_SOURCE_DIR}/deps/yyjson.cmake)
if(CHANNELD_TESTS)
    include(${PROJECT_SOURCE_DIR}/deps/cmocka.cmake)
endif()
