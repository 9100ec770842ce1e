# How our code is compiled and linked, as INTERFACE targets that others link:
#   channeld_hardening   mitigations of the OpenSSF compiler options guide, in optimised builds
#   channeld_reproducible  no path of this machine in the programs: with it two builds give the same bytes
#   channeld_sanitizers  what CHANNELD_SANITIZE and CHANNELD_COVERAGE ask for; empty otherwise
#   channeld_options     both, and warnings as errors: for our own code only
#   channeld_lto         link-time optimisation, in optimised builds by gcc: for the installed programs
#   channeld_no_lto      none, neither compiled nor linked: for the tests
# Every flag is probed, so that each compiler gets those it knows.

include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)

set(CHANNELD_SANITIZE "" CACHE STRING "Sanitizers, as after -fsanitize= (address,undefined or thread)")
set(CHANNELD_COVERAGE "" CACHE STRING "Instrument for coverage: of lines and branches (gcov), of conditions (mcdc, clang 19)")

# Sets OUT to those of the given flags that the compiler, or the linker (KIND LINK), accepts.
function(channeld_probe OUT KIND)
    set(accepted)
    foreach(flag IN LISTS ARGN)
        string(MAKE_C_IDENTIFIER "HAVE_${KIND}${flag}" var)
        if(KIND STREQUAL "LINK")
            check_linker_flag(C "${flag}" ${var})
        else()
            check_c_compiler_flag("${flag}" ${var})
        endif()
        if(${var})
            list(APPEND accepted "${flag}")
        endif()
    endforeach()
    set(${OUT} "${accepted}" PARENT_SCOPE)
endfunction()

set(CMAKE_REQUIRED_QUIET ON)

# --- Hardening --------------------------------------------------------------------------------------------------
add_library(channeld_hardening INTERFACE)
set(optimised "$<CONFIG:Release,RelWithDebInfo,MinSizeRel>")

set(hardening
    -fPIE
    -fstack-protector-strong
    -fstack-clash-protection
    -fno-delete-null-pointer-checks
    -fno-strict-overflow
    -fno-strict-aliasing
    -fstrict-flex-arrays=3)
# In force only where every object that is linked has it, the C library's start files too (not in Debian 12): what a
# program has is what `readelf -n` shows of it.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|i.86)$")
    list(APPEND hardening -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    list(APPEND hardening -mbranch-protection=standard)
endif()
channeld_probe(hardening_c COMPILE ${hardening})

# clang before 16 wants a second flag to admit the first.
channeld_probe(auto_var_init COMPILE -ftrivial-auto-var-init=zero)
if(NOT auto_var_init)
    set(auto_var_init -ftrivial-auto-var-init=zero
        -enable-trivial-auto-var-init-zero-knowing-it-will-be-removed-from-clang)
    string(JOIN " " CMAKE_REQUIRED_FLAGS ${auto_var_init} -Werror)
    check_c_source_compiles("int main(void) { return 0; }" HAVE_AUTO_VAR_INIT_ENABLED)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT HAVE_AUTO_VAR_INIT_ENABLED)
        set(auto_var_init)
    endif()
endif()

# A libc that does not know level 3 warns about it. Undefined first: some compilers predefine it.
set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <stdio.h>\nint main(void) { return 0; }" HAVE_FORTIFY_SOURCE_3)
unset(CMAKE_REQUIRED_FLAGS)
set(fortify -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${HAVE_FORTIFY_SOURCE_3}>,3,2>)

channeld_probe(hardening_link LINK
    -pie
    -Wl,-z,relro
    -Wl,-z,now
    -Wl,-z,noexecstack
    -Wl,-z,nodlopen
    -Wl,--as-needed
    -Wl,--no-copy-dt-needed-entries)

target_compile_options(channeld_hardening INTERFACE
    "$<${optimised}:${hardening_c};${auto_var_init};${fortify}>")
target_link_options(channeld_hardening INTERFACE "$<${optimised}:${hardening_link}>")

# --- Reproducible builds ----------------------------------------------------------------------------------------
# Debug information, __FILE__ and the code that link-time optimisation writes name files below one fixed folder (gdb:
# "set substitute-path /usr/src/channeld ."). The last map that matches counts, so the build folder may be in the source.
add_library(channeld_reproducible INTERFACE)
set(fixed_paths
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}=/usr/src/channeld
    -ffile-prefix-map=${PROJECT_BINARY_DIR}=/usr/src/channeld/build)
if(CMAKE_SYSROOT)
    list(APPEND fixed_paths -ffile-prefix-map=${CMAKE_SYSROOT}=)
endif()
target_compile_options(channeld_reproducible INTERFACE "$<${optimised}:${fixed_paths}>")
if(NOT fixed_paths MATCHES "'") # gcc loses an apostrophe on the way to its link-time compilers
    target_link_options(channeld_reproducible INTERFACE "$<${optimised}:${fixed_paths}>")
endif()
target_link_libraries(channeld_hardening INTERFACE channeld_reproducible)

# --- Sanitizers and coverage ------------------------------------------------------------------------------------
add_library(channeld_sanitizers INTERFACE)
if(CHANNELD_SANITIZE)
    target_compile_options(channeld_sanitizers INTERFACE
        -fsanitize=${CHANNELD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
    target_link_options(channeld_sanitizers INTERFACE -fsanitize=${CHANNELD_SANITIZE})
endif()
# Threads count in the same counters.
if(CHANNELD_COVERAGE STREQUAL "gcov")
    target_compile_options(channeld_sanitizers INTERFACE --coverage -fprofile-update=atomic -O0)
    target_link_options(channeld_sanitizers INTERFACE --coverage)
elseif(CHANNELD_COVERAGE STREQUAL "mcdc")
    target_compile_options(channeld_sanitizers INTERFACE
        -fprofile-instr-generate -fcoverage-mapping -fcoverage-mcdc -fprofile-update=atomic -O1)
    target_link_options(channeld_sanitizers INTERFACE -fprofile-instr-generate)
endif()

# --- Our own code -----------------------------------------------------------------------------------------------
channeld_probe(warnings COMPILE
    -Wall
    -Wextra
    -Wbidi-chars=any
    -Wcast-qual
    -Wconversion
    -Wdate-time
    -Wdouble-promotion
    -Wduplicated-cond
    -Wformat=2
    -Wimplicit-fallthrough
    -Wlogical-op
    -Wmissing-prototypes
    -Wmissing-variable-declarations
    -Wnested-externs
    -Wold-style-definition
    -Wpointer-arith
    -Wredundant-decls
    -Wshadow
    -Wsign-conversion
    -Wstrict-prototypes
    -Wtrampolines
    -Wundef
    -Wunused-macros
    -Wvla
    -Wwrite-strings)

add_library(channeld_options INTERFACE)
target_compile_options(channeld_options INTERFACE ${warnings} $<$<NOT:$<STREQUAL:${CHANNELD_COVERAGE},mcdc>>:-Werror>)
target_compile_definitions(channeld_options INTERFACE _GNU_SOURCE)
target_link_libraries(channeld_options INTERFACE channeld_hardening channeld_sanitizers)

# --- Link-time optimisation -------------------------------------------------------------------------------------
# The request path crosses five libraries: a hit becomes a tenth shorter. The objects hold ordinary code as well, so
# that the many test programs link without it, as fast as ever. (clang has such objects only from 17 on.)
add_library(channeld_lto INTERFACE)
add_library(channeld_no_lto INTERFACE)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CHANNELD_SANITIZE AND NOT CHANNELD_COVERAGE)
    target_compile_options(channeld_options INTERFACE "$<${optimised}:-flto=auto;-ffat-lto-objects>")
    target_link_options(channeld_lto INTERFACE "$<${optimised}:-flto=auto;-fuse-linker-plugin>")
    target_compile_options(channeld_no_lto INTERFACE -fno-lto) # behind channeld_options' -flto
    target_link_options(channeld_no_lto INTERFACE -fno-lto)
endif()

unset(CMAKE_REQUIRED_QUIET)
