# Turns what `cmake --install` has put into cpack's staging folder into what Debian's policy wants: change logs and man
# pages compressed, copyright, programs without debug information. The
# latter goes to a folder of its own, of which finish.cmake makes channeld-dbgsym: cpack's own debug packages name the
# files of the staging folder, and lintian rejects them.

set(root "${CPACK_TEMPORARY_DIRECTORY}")
set(doc "${root}/usr/share/doc/channeld")
set(debug "${root}-debug")

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# detach_debug_information(PROGRAM): to where gdb looks for it, by the build id.
function(detach_debug_information PROGRAM)
    execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C "${CPACK_READELF_EXECUTABLE}" --notes "${PROGRAM}"
        OUTPUT_VARIABLE notes COMMAND_ERROR_IS_FATAL ANY)
    if(NOT notes MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
        message(FATAL_ERROR "${PROGRAM} has no build id")
    endif()
    set_property(GLOBAL APPEND_STRING PROPERTY BUILD_IDS " ${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    set(file "${debug}/usr/lib/debug/.build-id/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug")
    cmake_path(GET file PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    run("${CPACK_OBJCOPY_EXECUTABLE}" --only-keep-debug --compress-debug-sections "${PROGRAM}" "${file}")
    run("${CPACK_OBJCOPY_EXECUTABLE}" --strip-unneeded --remove-section=.comment "${PROGRAM}")
    run("${CPACK_OBJCOPY_EXECUTABLE}" "--add-gnu-debuglink=${file}" "${PROGRAM}")
    run(chmod 644 "${file}")
endfunction()

set(version "${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C date -u -R -d "@$ENV{SOURCE_DATE_EPOCH}"
    OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

file(REMOVE "${doc}/LICENSE")
file(COPY_FILE "${doc}/CHANGELOG.md" "${doc}/changelog") # documents link to the former
configure_file("${CPACK_CHANNELD_DEBIAN}/changelog.in" "${doc}/changelog.Debian" @ONLY)
file(COPY "${CPACK_CHANNELD_DEBIAN}/copyright" "${CPACK_CHANNELD_DEBIAN}/README.Debian" DESTINATION "${doc}")
file(GLOB pages "${root}/usr/share/man/*/*")
run(gzip -9n ${pages} "${doc}/changelog" "${doc}/changelog.Debian")

file(MAKE_DIRECTORY "${root}/usr/share/lintian/overrides")
configure_file("${CPACK_CHANNELD_DEBIAN}/lintian-overrides" "${root}/usr/share/lintian/overrides/channeld" COPYONLY)

file(REMOVE_RECURSE "${debug}")
foreach(program IN ITEMS channeld channelctl)
    detach_debug_information("${root}/usr/bin/${program}")
endforeach()
get_property(build_ids GLOBAL PROPERTY BUILD_IDS)
string(STRIP "${build_ids}" build_ids)
file(GLOB_RECURSE files "${debug}/usr/*")
set(installed_size 1) # the folder, in KiB
foreach(file IN LISTS files)
    file(SIZE "${file}" size)
    math(EXPR installed_size "${installed_size} + (${size} + 1023) / 1024")
endforeach()
file(MAKE_DIRECTORY "${debug}/usr/share/doc")
file(CREATE_LINK channeld "${debug}/usr/share/doc/channeld-dbgsym" SYMBOLIC)
configure_file("${CPACK_CHANNELD_DEBIAN}/dbgsym-control.in" "${debug}/DEBIAN/control" @ONLY)

# Modes do not depend on the umask, times are those of the commit.
run(chmod -R u=rwX,go=rX "${root}/usr" "${debug}")
run(chmod 755 "${root}/etc" "${root}/etc/channeld")
run(find "${root}" "${debug}" -exec touch -h -d "@$ENV{SOURCE_DATE_EPOCH}" "{}" +)
