# Run by cpack when it has made the package: makes channeld-dbgsym beside it, of what stage.cmake has put aside, and packs
# the package's archive anew, since cpack's records the umask.

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(package "${CPACK_PACKAGE_FILES}")
set(debug "${CPACK_TEMPORARY_DIRECTORY}-debug")
set(parts "${CPACK_TEMPORARY_DIRECTORY}-parts")

file(REMOVE_RECURSE "${parts}")
file(MAKE_DIRECTORY "${parts}")
run("${CPACK_AR_EXECUTABLE}" x "${package}" WORKING_DIRECTORY "${parts}")
file(REMOVE "${package}")
run("${CPACK_AR_EXECUTABLE}" rcD "${package}" debian-binary control.tar.gz data.tar.xz WORKING_DIRECTORY "${parts}")

cmake_path(GET package FILENAME name)
string(REGEX REPLACE "^channeld_" "channeld-dbgsym_" name "${name}")
set(dbgsym "${CPACK_PACKAGE_DIRECTORY}/${name}")
run(dpkg-deb --root-owner-group --threads-max=1 -Zxz --build "${debug}" "${dbgsym}" OUTPUT_QUIET)
run(chmod 644 "${package}" "${dbgsym}")
message("CPack: - package: ${dbgsym} generated.")
