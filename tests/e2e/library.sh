#!/bin/bash
# The library as `make install` leaves it: a program that knows only magis.h and libmagis.a compiles without warnings, and
# its plan is one that the daemon's checker accepts.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/e2e/libcheck.sh
prefix=$MAGIS_TMP/usr

# What magis.pc says of compiling (Cflags) or linking (Libs).
flags_of() {
    sed -n "s/^$1: //p" "$prefix/lib/pkgconfig/magis.pc"
}

compile() {
    # shellcheck disable=SC2046 # flags are words
    ${CC:-gcc} -std=c17 -Wall -Wextra -Werror ${MAGIS_SANITIZER:+-fsanitize=address,undefined} $(flags_of Cflags) \
        -o "$MAGIS_TMP/$1" "$2" $(flags_of Libs) 2>&1
}

line_of() {
    sed -n "s/^$1: //p" "$MAGIS_TMP/out"
}

check 'it installs' "$(make install-library BUILD="$BUILD" PREFIX="$prefix" >"$MAGIS_TMP/log" 2>&1 || cat "$MAGIS_TMP/log")" ''
check 'no private header' "$(find "$prefix/include" -name '*_priv.h')" ''
for header in $(cd "$prefix/include/magis" && find . -name '*.h'); do
    echo "#include \"$header\""
done >"$MAGIS_TMP/each.c"
echo 'int main(void) { return 0; }' >>"$MAGIS_TMP/each.c"
check 'every header compiles' "$(compile each "$MAGIS_TMP/each.c")" ''
check 'the example compiles' "$(compile example tests/e2e/library.c)" ''
check 'it runs' "$("$MAGIS_TMP/example" "$MAGIS_TMP/plan.json" >"$MAGIS_TMP/out" 2>&1; echo $?)" 0
check 'the limit is met' "$(line_of limit)" met
check 'the checker accepts' "$(line_of checker)" accepted
check 'the results are the same' "$(line_of results)" equal
read -r peak _ original _ <<<"$(line_of peak)"
check 'less memory' "$((peak * 10 <= original * 7))" 1
"$MAGISD" zoo mlp --set batch=512,in=32,hidden=32,layers=8 --training loss=mse,optimizer=sgd -o "$MAGIS_TMP/graph.json"
check 'the program agrees' "$("$MAGISD" check "$MAGIS_TMP/graph.json" "$MAGIS_TMP/plan.json" | grep -o "\"peak_bytes\":$peak")" \
    "\"peak_bytes\":$peak"
check 'it goes away' "$(make uninstall BUILD="$BUILD" PREFIX="$prefix" >/dev/null 2>&1; find "$prefix" -type f)" ''

end_checks
