#!/bin/bash
# Runs all tests and adds up what each runner reports.
#
#   BUILD=build tests/run.sh PROGRAM...
#
# PROGRAMs are unit test binaries (BUILD/tests/*, Criterion) and replays of fuzz corpora
# (BUILD/replay/*); after them come the scripts of tests/browser and tests/e2e (*.sh, *.py, *.js,
# *.mjs). A script prints "N passed, M failed" and exits non-zero if M > 0; it finds the daemon in
# $MAGISD, the build in $BUILD, an empty folder of its own in $MAGIS_TMP and, in tests/browser, the
# browser in $CHROMIUM. JOBS of them (3) run at once: many wait more than they compute. The last line
# here is the sum, in the same words. MAGIS_ONLY=unit leaves the scripts out. MAGIS_FILTER=TEXT takes
# only runners whose name contains TEXT. With MAGIS_SANITIZER=1 a report of a sanitizer fails its runner.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=$(realpath "${BUILD:-build}")
export BUILD MAGISD="$BUILD/magisd" LC_ALL=C.UTF-8
logs=$BUILD/logs
mkdir -p "$logs"
passed=0
failed=0
patience=${MAGIS_SANITIZER:+4} # times the limits: sanitized programs take so much longer
patience=${patience:-1}
lanes=${JOBS:-3}
[ "$lanes" -ge 1 ] || { echo "JOBS=$lanes: how many run at once, 1 or more" >&2; exit 2; }
declare -A name_of=() folder_of=() start_of=() # of the runners under way, by their process
trap 'kill "${!name_of[@]}" 2>/dev/null; rm -rf "${folder_of[@]}"' EXIT
trap 'exit 130' INT TERM HUP

# Criterion forks: a leak in a child does not fail its test, so reports go to files that are looked for.
sanitize() {
    [ -n "${MAGIS_SANITIZER:-}" ] || return 0
    rm -f "$logs/$1".report.*
    export ASAN_OPTIONS="log_path=$logs/$1.report:detect_stack_use_after_return=1:allocator_may_return_null=1"
    export UBSAN_OPTIONS="log_path=$logs/$1.report:print_stacktrace=1"
}

# account NAME STATUS SECONDS: reads the log of a runner and adds its counts.
account() {
    local name=$1 status=$2 seconds=$3 log=$logs/$1.log good bad line
    line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    if [ -z "$line" ]; then
        line=$(sed -nE 's/.*Tested: ([0-9]+) \| Passing: ([0-9]+) .*/\1 \2/p' "$log" | tail -n 1 |
            { read -r tested passing && echo "$passing passed, $((tested - passing)) failed"; })
    fi
    good=${line%% *}
    bad=${line#*, }
    bad=${bad%% *}
    if [ -z "$line" ]; then
        good=0 bad=1
    elif [ "$good" = 0 ] && [ "$bad" = 0 ]; then
        bad=1 # a runner without a test is a mistake
    elif [ "$status" != 0 ] && [ "$bad" = 0 ]; then
        bad=1
    fi
    if compgen -G "$logs/$name.report.*" >/dev/null; then
        cat "$logs/$name".report.* >>"$log"
        bad=$((bad + 1))
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
    if [ "$bad" = 0 ]; then
        printf 'ok    %-32s %4d passed  %3d s\n' "$name" "$good" "$seconds"
        return
    fi
    printf 'FAIL  %-32s %4d passed, %d failed (exit status %d)\n' "$name" "$good" "$bad" "$status"
    tail -n 60 "$log" | sed 's/^/    | /'
}

# run NAME LIMIT_S COMMAND...: starts a runner as soon as a lane is free.
run() {
    local name=$1 limit=$(($2 * patience)) folder
    shift 2
    case $name in *"${MAGIS_FILTER:-}"*) ;; *) return ;; esac
    while [ ${#name_of[@]} -ge "$lanes" ]; do
        settle
    done
    folder=$(mktemp -d)
    (
        sanitize "$name"
        export MAGIS_TMP=$folder
        exec timeout -k 10 "$limit" "$@"
    ) >"$logs/$name.log" 2>&1 </dev/null &
    name_of[$!]=$name
    folder_of[$!]=$folder
    start_of[$!]=$SECONDS
}

# Accounts for the runners that have ended, one at least. `wait -n` may pass over one that ended beside another,
# so all are looked at.
settle() {
    local pid status live before=${#name_of[@]}
    while [ ${#name_of[@]} = "$before" ]; do
        live=" $(jobs -pr | tr '\n' ' ')"
        [ "$(wc -w <<<"$live")" -lt "$before" ] || wait -n
        for pid in "${!name_of[@]}"; do
            case $live in *" $pid "*) continue ;; esac
            wait "$pid"
            status=$?
            rm -rf "${folder_of[$pid]}"
            [ $status = 124 ] && echo 'stopped: it took too long' >>"$logs/${name_of[$pid]}.log"
            account "${name_of[$pid]}" $status $((SECONDS - start_of[$pid]))
            unset "name_of[$pid]" "folder_of[$pid]" "start_of[$pid]"
        done
    done
}

# From the end of the alphabet: the long ones of PyTorch do not come last, when nothing is left to run beside them.
run_scripts() {
    local kind=$1 scripts script name
    mapfile -t scripts < <(printf '%s\n' tests/"$kind"/* | sort -r)
    for script in "${scripts[@]}"; do
        name=$kind-$(basename "$script")
        case $(basename "$script") in
        lib* | _* | *.md) ;;
        *.sh) run "$name" 300 bash "$script" ;;
        *.py) run "$name" 300 python3 "$script" ;;
        *.js | *.mjs) run "$name" 300 node "$script" ;;
        esac
    done
}

find_browser() {
    local candidate
    for candidate in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
        [ -n "$candidate" ] && command -v "$candidate" && return 0
    done
    return 1
}

for program in "$@"; do
    case $program in
    */replay/*) run "replay-$(basename "$program")" 120 "$program" "tests/fuzz/corpus/$(basename "$program")" ;;
    *) run "$(basename "$program")" 150 "$program" ;;
    esac
done
if [ "${MAGIS_ONLY:-}" != unit ]; then
    CHROMIUM=$(find_browser)
    export CHROMIUM
    [ -z "$CHROMIUM" ] || run_scripts browser # first: one of them takes a lane for long
    run_scripts e2e
fi
while [ ${#name_of[@]} -gt 0 ]; do
    settle
done
if [ "${MAGIS_ONLY:-}" != unit ] && [ -d tests/browser ] && [ -z "$CHROMIUM" ]; then
    echo '!!!!! NO CHROMIUM HERE: THE BROWSER TESTS WERE LEFT OUT !!!!!'
fi
[ $((passed + failed)) -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
