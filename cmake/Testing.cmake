# The kinds of tests. Each test is one program, tests/<kind>/NAME.c, and one ctest entry, <kind>.NAME. Those labelled
# "slow" run in scripts/test --all only. The target tests_<kind> builds the programs of a kind.

# add_test() for a test that can be skipped: its exit code is then that of TEST_SKIPPED (tests/support/test.h).
function(channeld_add_test)
    add_test(${ARGV})
    set_tests_properties(${ARGV1} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

# tests/needs, which skips a test whose tools are missing: COMMAND ${needs} HINT NEED... -- COMMAND...
set(needs ${PROJECT_SOURCE_DIR}/tests/needs)

# channeld_unit_test(NAME LIBS channeld_base ...)
function(channeld_unit_test NAME)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS")
    channeld_test_program(unit ${NAME} ${arg_LIBS})
    set_tests_properties(unit.${NAME} PROPERTIES TIMEOUT 180)
    if(CMAKE_CROSSCOMPILING) # by qemu, which takes its time
        set_tests_properties(unit.${NAME} PROPERTIES TIMEOUT 900 ENVIRONMENT TEST_TIME_SCALE=10)
    endif()
endfunction()

# Redis 8 and Valkey, as scripts/setup --tools unpacks them.
set(CHANNELD_SERVERS ${CHANNELD_DEPS_DIR}/servers)

# channeld_service_test(KIND NAME [SLOW] [LIBS ...]): finds the programs under test in CHANNELD_BIN and CHANNELCTL_BIN,
# other servers than the system's Redis in CHANNELD_SERVERS.
function(channeld_service_test KIND NAME)
    cmake_parse_arguments(PARSE_ARGV 2 arg "SLOW" "" "LIBS")
    channeld_test_program(${KIND} ${NAME} test_support ${arg_LIBS})
    add_dependencies(${KIND}_${NAME} channeld channelctl)
    set_tests_properties(${KIND}.${NAME} PROPERTIES
        TIMEOUT 300
        ENVIRONMENT "CHANNELD_BIN=$<TARGET_FILE:channeld>;CHANNELCTL_BIN=$<TARGET_FILE:channelctl>;CHANNELD_SERVERS=${CHANNELD_SERVERS}")
    if(arg_SLOW)
        set_tests_properties(${KIND}.${NAME} PROPERTIES LABELS "${KIND};slow" TIMEOUT 600)
    endif()
endfunction()

function(channeld_test_program KIND NAME)
    set(target ${KIND}_${NAME})
    add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${KIND}/${NAME}.c)
    target_link_libraries(${target} PRIVATE channeld_options channeld_no_lto ${ARGN} dep_cmocka)
    channeld_add_test(NAME ${KIND}.${NAME} COMMAND ${target})
    set_tests_properties(${KIND}.${NAME} PROPERTIES LABELS ${KIND})
    if(NOT TARGET tests_${KIND})
        add_custom_target(tests_${KIND})
    endif()
    add_dependencies(tests_${KIND} ${target})
endfunction()

# channeld_lone_test(KIND NAME TIMEOUT SECONDS [SLOW] [SERVER PATH] ARG...): the program KIND with arguments, and nothing
# beside it. SERVER: it runs against that redis-server, which scripts/setup --tools installs.
function(channeld_lone_test KIND NAME)
    cmake_parse_arguments(PARSE_ARGV 2 arg "SLOW" "TIMEOUT;SERVER" "")
    set(command $<TARGET_FILE:${KIND}> ${arg_UNPARSED_ARGUMENTS})
    if(arg_SERVER)
        set(command ${needs} --tools ${arg_SERVER} -- ${command} --redis-server ${arg_SERVER})
    endif()
    channeld_add_test(NAME ${KIND}.${NAME} COMMAND ${command})
    set_tests_properties(${KIND}.${NAME} PROPERTIES
        LABELS ${KIND}
        TIMEOUT ${arg_TIMEOUT}
        RUN_SERIAL ON
        ENVIRONMENT "CHANNELD_BIN=$<TARGET_FILE:channeld>")
    if(arg_SLOW)
        set_tests_properties(${KIND}.${NAME} PROPERTIES LABELS "${KIND};slow")
    endif()
endfunction()
