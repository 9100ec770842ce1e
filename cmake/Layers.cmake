# channeld_layer(NAME SOURCES a.c b.c DEPENDS channeld_base dep_uv ...)
#
# The static library channeld_NAME of one layer, src/NAME. Code includes its own and lower layers' headers by
# their path under src/ ("base/buf.h"). What DEPENDS names is seen by the layers above as well;
# tests/check-structure holds #include lines and calls to the permitted arrows.
function(channeld_layer NAME)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS")
    set(target channeld_${NAME})
    file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.c)
    list(REMOVE_ITEM sources main.c)
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
    target_link_libraries(${target} PRIVATE channeld_options PUBLIC ${arg_DEPENDS})
endfunction()

# channeld_program(NAME SOURCES main.c DEPENDS channeld_app): a program, put at the top of the build folder.
function(channeld_program NAME)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
    add_executable(${NAME} ${arg_SOURCES})
    target_link_libraries(${NAME} PRIVATE channeld_options channeld_lto ${arg_DEPENDS})
    # The link map, of which scripts/sbom reads what is linked in.
    target_link_options(${NAME} PRIVATE LINKER:-Map=${PROJECT_BINARY_DIR}/${NAME}.map)
    set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
