#!/bin/bash
# What `make lint` checks; every finding is an error.
set -u
cd "$(dirname "$0")/.." || exit 2
CC=${CC:-gcc}
JOBS=${JOBS:-2}
FLAGS="-std=c17 -D_GNU_SOURCE -I. -Icore"
status=0

sources() {
    git ls-files --cached --others --exclude-standard -- "$@" | sort -u
}

step() {
    local title=$1
    shift
    echo "== $title"
    "$@" || {
        echo "lint: $title failed" >&2
        status=1
    }
}

need() {
    command -v "$1" >/dev/null && return 0
    echo "lint: $1 is missing (make deps-dev)" >&2
    status=1
    return 1
}

check_format() {
    sources '*.c' '*.h' | xargs -r clang-format --dry-run -Werror
}

# A header must not lean on what its includer included before.
check_headers() {
    local header bad=0
    for header in $(sources '*.h'); do
        $CC $FLAGS -Wall -Wextra -Werror -fsyntax-only -include "$header" -x c /dev/null || bad=1
    done
    return $bad
}

# The daemon uses of the core what every program may.
check_interface() {
    local header bad=0
    for header in $(sources 'server/*.[ch]' 'store/*.[ch]' | xargs sed -nE 's|^#include "(core/)?([a-z]+/[a-z0-9_]+\.h)"|\2|p' |
        grep -vE '^(server|store)/' | sort -u); do
        grep -qF "#include \"$header\"" core/magis.h || { echo "$header is not part of core/magis.h"; bad=1; }
    done
    return $bad
}

# The build includes core/banned.h before each file; here the files must stand on their own includes.
check_includes() {
    sources 'core/*.c' 'core/**/*.c' | xargs -r -P "$JOBS" -n 8 "$CC" $FLAGS -fsyntax-only -Werror=implicit-function-declaration
}

# What slipped past the names in banned.h would show among the symbols.
check_symbols() {
    local library=build/libmagis.a banned found twice
    [ -f $library ] || return 0
    banned='exp|exp2|expm1|log|log2|log10|log1p|pow|cbrt|hypot|sin|cos|tan|a(sin|cos|tan)|atan2|(sin|cos|tan)h|erfc?|[lt]gamma|fmod|remainder|ldexp|frexp'
    found=$(nm -A -u $library 2>/dev/null | grep -vE ':(exec_|kernel_)' | grep -E " U (${banned})f?\$" | grep -vE "$(exec_objects)")
    [ -z "$found" ] || { echo "$found"; return 1; }
    # Two objects that define one name: the linker silently takes the first that it meets.
    twice=$(nm -g --defined-only $library 2>/dev/null | awk '$2 ~ /[TDBR]/ {print $3}' | sort | uniq -d)
    [ -z "$twice" ] || { echo "defined twice: $twice"; return 1; }
}

exec_objects() {
    local name pattern=':(none'
    for name in $(sources 'core/exec/*.c' 'core/measure/*.c'); do
        pattern="$pattern|$(basename "$name" .c)\\.o"
    done
    echo "$pattern):"
}

# A problem that errors.def does not know has no status, and its type leads nowhere.
check_problems() {
    local name bad=0
    for name in $(sources 'server/*.c' | xargs perl -0ne \
        'print "$1\n" while /\b(?:mg_reply_fail|mg_reply_problem|mg_call_fail|mg_problem_document|refuse|abandon|mg_run_put_off)\(\s*[^"();]*"([a-z-]+)"/g' |
        sort -u); do
        grep -qF "PROBLEM(\"$name\"" server/errors.def || { echo "$name is not in server/errors.def"; bad=1; }
    done
    return $bad
}

check_tidy() {
    sources 'core/*.c' 'core/**/*.c' 'store/*.c' 'server/*.c' |
        FLAGS=$FLAGS xargs -r -P "$JOBS" -n 4 sh -c 'clang-tidy --quiet --warnings-as-errors="*" "$@" -- $FLAGS 2>/dev/null' tidy
}

# cppcheck does not follow our tables (*.def) and output arguments; compilers and sanitizers do.
check_cppcheck() {
    sources 'core/*.c' 'core/**/*.c' 'store/*.c' 'server/*.c' |
        cppcheck -q -j "$JOBS" --std=c11 --enable=warning,performance,portability --inline-suppr \
            --suppress=missingInclude --suppress=normalCheckLevelMaxBranches --suppress=unknownMacro \
            --suppress=preprocessorErrorDirective --suppress=syntaxError --suppress=internalAstError --suppress=uninitvar --suppress=arrayIndexOutOfBoundsCond \
            --suppress=ctuuninitvar --suppress=ctunullpointer --suppress=ctuArrayIndex --error-exitcode=1 \
            -I. -Icore -D_GNU_SOURCE --file-list=-
}

# The last stage of the container has the packages of all that the program is linked with or opens.
check_container() {
    local library package bad=0 stage opened
    [ "$(. /etc/os-release && echo "$ID$VERSION_ID")" = debian12 ] && [ -f build/magisd ] || return 0
    stage=$(tac Dockerfile | sed '/^FROM/q')
    opened=$(sed -nE 's/.*dlopen\("(libdnnl[^"]*)".*/\1/p' core/measure/onednn.c)
    for library in ${opened:-nothing-opens-oneDNN} $(objdump -p build/magisd | sed -nE 's/^ *NEEDED +//p'); do
        package=$(dpkg -S "*/$library" 2>/dev/null | grep -v /lib32/ | sed -nE '1s/:.*//p')
        [ "$package" = libc6 ] || grep -qw -- "${package:-$library}" <<<"$stage" || { echo "$library: Dockerfile lacks ${package:-its package}"; bad=1; }
    done
    return $bad
}

need clang-format && step 'formatting' check_format
step 'each header alone' check_headers
step 'the interface of the core' check_interface
step 'core files stand on their own includes' check_includes
step 'symbols of the core' check_symbols
step 'names of problems' check_problems
step 'libraries of the container' check_container
need cppcheck && step 'cppcheck' check_cppcheck
need clang-tidy && step 'clang-tidy' check_tidy
[ $status = 0 ] && echo 'lint: clean'
exit $status
