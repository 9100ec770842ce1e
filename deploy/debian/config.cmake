# Read by cpack before anything else. All times in a package are SOURCE_DATE_EPOCH: the time of the commit, unless the
# environment says otherwise. cpack itself honours the variable.
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
    execute_process(COMMAND git -C "${CPACK_CHANNELD_SOURCE}" log -1 --format=%ct
        OUTPUT_VARIABLE epoch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT epoch)
        string(TIMESTAMP epoch %s UTC)
    endif()
    set(ENV{SOURCE_DATE_EPOCH} "${epoch}")
endif()
