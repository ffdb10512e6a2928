#!/bin/bash
# tests/run.sh itself, on scripts of a few words: two run at once, and none is lost, whatever becomes of it.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/e2e/libcheck.sh
place=$MAGIS_TMP/place
mkdir -p "$place/tests/e2e"
cp tests/run.sh "$place/tests"

script() {
    cat >"$place/tests/e2e/$1.sh"
}

# run JOBS: what it prints, and its exit status.
run() {
    env -u MAGIS_FILTER -u MAGIS_ONLY JOBS="$1" BUILD="$place" TMPDIR="$MAGIS_TMP" bash "$place/tests/run.sh" 2>&1
    echo "status $?"
}

for n in 1 2 3 4 5 6; do
    echo "echo '$n passed, 0 failed'" | script "quick$n"
done
# Each waits for the other: alone in its lane it waits in vain.
for two in 'left right' 'right left'; do
    read -r ours theirs <<<"$two"
    script "$ours" <<E2
touch '$place/$ours'
for n in \$(seq 100); do
    [ -e '$place/$theirs' ] && { echo '1 passed, 0 failed'; exit 0; }
    sleep 0.1
done
echo '0 passed, 1 failed'
exit 1
E2
done
out=$(run 2)
check 'all pass, two at once' "$(tail -n 2 <<<"$out" | xargs)" '23 passed, 0 failed status 0'
check 'a line for each' "$(grep -c '^ok ' <<<"$out")" 8
check 'nothing is left behind' "$(find "$MAGIS_TMP" -mindepth 1 -maxdepth 1 -name 'tmp.*')" ''

rm "$place"/tests/e2e/left.sh "$place"/tests/e2e/right.sh
echo 'kill -9 $PPID' | script killed
echo 'echo "2 passed, 0 failed"; exit 3' | script odd
echo 'for n in $(seq 3000); do echo "$n of many"; done; echo "4 passed, 2 failed"; exit 1' | script many
echo 'exit 0' | script silent
for jobs in 1 2 20; do
    out=$(run "$jobs")
    check "lost ones have failed, $jobs at once" "$(tail -n 2 <<<"$out" | xargs)" '27 passed, 5 failed status 1'
    check "each is told, $jobs at once" "$(grep '^FAIL' <<<"$out" | awk '{ print $2 }' | sort | xargs)" \
        'e2e-killed.sh e2e-many.sh e2e-odd.sh e2e-silent.sh'
    check "in one piece, $jobs at once" "$(grep -A 59 '^FAIL  e2e-many' <<<"$out" | tail -n 59 | grep -vc 'of many')" 0
done

rm "$place"/tests/e2e/*
echo 'sleep 0.2; echo "1 passed, 0 failed"' | script clean
echo 'to=${ASAN_OPTIONS#log_path=}; echo leak >"${to%%:*}.1"; sleep 0.2; echo "1 passed, 0 failed"' | script leaky
out=$(MAGIS_SANITIZER=1 run 2)
check 'a report is of one runner' "$(grep -c '^FAIL  e2e-leaky' <<<"$out"; tail -n 2 <<<"$out" | xargs)" \
    $'1\n2 passed, 1 failed status 1'

rm "$place"/tests/e2e/*
for n in 1 2 3; do
    echo "echo \$\$ >'$place/slow$n'; exec sleep 100" | script "slow$n"
done
run 2 >"$place/out" &
for n in $(seq 100); do
    [ -s "$place/slow3" ] && [ -s "$place/slow2" ] && break
    sleep 0.1
done
pkill -P $! -x bash
wait $!
check 'told to stop it stops' "$(cat "$place/out")" 'status 130'
for n in $(seq 100); do
    left=$(cat "/proc/$(cat "$place/slow3")/cmdline" "/proc/$(cat "$place/slow2")/cmdline" 2>/dev/null | tr -d '\0')
    [ -z "$left" ] && break
    sleep 0.1
done
check 'and what it ran' "$left" ''
check 'no other was started' "$([ -e "$place/slow1" ]; echo $?)" 1
check 'not none at once' "$(run 0 | xargs)" 'JOBS=0: how many run at once, 1 or more status 2'

end_checks
