# The two kinds of tests. Each is one program, tests/<kind>/NAME.c, and one ctest entry, <kind>.NAME.

# channeld_unit_test(NAME LIBS channeld_base ...)
function(channeld_unit_test NAME)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS")
    channeld_test_program(unit ${NAME} ${arg_LIBS})
    set_tests_properties(unit.${NAME} PROPERTIES TIMEOUT 60)
endfunction()

# channeld_integration_test(NAME [LIBS ...]): finds the programs under test in CHANNELD_BIN and CHANNELCTL_BIN.
function(channeld_integration_test NAME)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS")
    channeld_test_program(integration ${NAME} test_support ${arg_LIBS})
    add_dependencies(integration_${NAME} channeld channelctl)
    set_tests_properties(integration.${NAME} PROPERTIES
        TIMEOUT 120
        ENVIRONMENT "CHANNELD_BIN=$<TARGET_FILE:channeld>;CHANNELCTL_BIN=$<TARGET_FILE:channelctl>")
endfunction()

function(channeld_test_program KIND NAME)
    set(target ${KIND}_${NAME})
    add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${KIND}/${NAME}.c)
    target_link_libraries(${target} PRIVATE channeld_options channeld_no_lto ${ARGN} dep_cmocka)
    add_test(NAME ${KIND}.${NAME} COMMAND ${target})
    set_tests_properties(${KIND}.${NAME} PROPERTIES LABELS ${KIND})
endfunction()
