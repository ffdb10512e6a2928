#!/bin/bash
# On a machine with an NVIDIA card: executes plans and prints predicted beside measured, holds every operator against
# the reference executor in f32, bf16 and f16, and times the operators of all networks of the zoo. Each section has its
# share of the time and is stopped when that is over; whatever happens, the tables are printed and the script ends
# within GPU_CHECK_SECONDS (470: 8 minutes with the stopping). Say make deps first where packages are missing.
#
#   deploy/gpu-check.sh [FOLDER]          profile, rows and tables go to FOLDER (gpu-check)
#
# MAGIS_DEVICE: another device than cuda:0. BUILT=DIR: binaries of DIR instead of building here. PLANS, NETWORKS: names
# of networks instead of all. TIMES: batches of the plans' networks, times as large as for a processor (5).
set -u
cd "$(dirname "$0")/.." || exit 2
out=${1:-gpu-check}
device=${MAGIS_DEVICE:-cuda:0}
build=${BUILT:-build}
deadline=$((SECONDS + ${GPU_CHECK_SECONDS:-470}))
training=loss=mse,optimizer=sgd
status=0
mkdir -p "$out" || exit 2
rm -f "$out"/{plans,correct,networks,failed}.txt
: >"$out/failed.txt"

# share PERCENT: so much of the time that is left, but for some seconds to print and to be stopped in
share() {
    local left=$((deadline - SECONDS - 8))
    echo $((left > 0 ? left * $1 / 100 : 0))
}

# step SECONDS TITLE COMMAND...: false where it fails, or is stopped; SECONDS are those after which it is, 3 later it is
# killed
step() {
    local seconds=$1 title=$2 code
    shift 2
    [ "$seconds" -gt 0 ] || { failed "$title: no time was left"; return 1; }
    echo "== $title (at most $seconds s)"
    timeout -k 3 "$seconds" "$@"
    code=$?
    case $code in
    0) return 0 ;;
    124 | 137) failed "$title: stopped after $seconds s" ;;
    *) failed "$title: exit status $code" ;;
    esac
    return 1
}

failed() {
    status=1
    echo "$1" | tee -a "$out/failed.txt" >&2
}

table() {
    echo
    echo "== $1"
    [ -s "$2" ] && cat "$2" || echo "(nothing)"
}

finish() {
    grep -hE 'predicted|original off|originals|failed|left out|not measured' "$out/plans.log" >"$out/plans.txt" 2>/dev/null
    grep -hE 'samples|Tested|FAIL|layout|without kernel' "$out/correct.log" 2>/dev/null | cut -c1-300 | tail -n 80 >"$out/correct.txt"
    table "plans on $device: predicted and measured" "$out/plans.txt"
    table "operators on $device beside the reference" "$out/correct.txt"
    table "operators of networks timed on $device" "$out/networks.txt"
    [ ! -s "$out/failed.txt" ] || table "not as it should be" "$out/failed.txt"
    echo "gpu-check: $SECONDS s, exit status $status"
    exit $status
}
trap finish EXIT
trap 'failed "interrupted"; exit 1' INT TERM

# Those named, or all of the zoo, kinds that differ first; behind each name "batch" where it has that option, as
# those have that can be trained.
networks() {
    local first="mlp resnet50 bert-base gpt-neo-125m vit-base-16 unet mobilenet-v2 densenet121 lstm nasnet-like llama-tiny"
    "$build/magisd" zoo --json | tr '{' '\n' | awk -F'"' -v wanted="$*" -v first="$first" '
        /"parameters":/ { name = $4; names[++count] = name }
        /"name":"batch"/ { batch[name] = "batch" }
        END {
            for (i = 1; i <= count; i++) {
                kind = index(" " first " ", " " names[i] " ") > 0
                all[kind] = all[kind] " " names[i]
            }
            if (wanted == "") wanted = all[1] all[0]
            n = split(wanted, list, " ")
            for (i = 1; i <= n; i++) print list[i], batch[list[i]]
        }'
}

# Each network has its share of the time that is left, at least two seconds; what one does not need the next ones have.
# All rows go to one file, so that an operator of several networks is timed once.
time_networks() {
    local list name batch seconds said code
    mapfile -t list < <(networks "$@")
    for ((i = 0; i < ${#list[@]}; i++)); do
        read -r name batch <<<"${list[i]}"
        seconds=$(($(share 100) / (${#list[@]} - i)))
        [ "$seconds" -ge 2 ] || seconds=2
        [ "$(share 100)" -ge 2 ] || { echo "$name: no time was left" >>"$out/networks.txt"; continue; }
        said=$(timeout -k 2 $((seconds + 3)) "$build/magisd" measure "zoo:$name" \
            ${batch:+--set batch=8 --training $training} --device "$device" --max-seconds $seconds \
            -o "$out/timings.ndjson" 2>&1 </dev/null)
        code=$?
        case $code in
        0) ;;
        124 | 130 | 137) said="stopped after $((seconds + 3)) s" ;;
        *) failed "operators of $name: exit status $code" ;;
        esac
        printf '%s: %s\n' "$name" "$(tail -n 1 <<<"$said" | sed 's/, the same command.*//')" | tee -a "$out/networks.txt"
    done
}

if [ -z "${BUILT:-}" ]; then
    step "$(share 40)" "build" make -s -j"$(nproc)" build/magisd build/tests/test_measure build/bench/bench_device || exit 1
fi
step "$(share 15)" "profile of $device" "$build/magisd" measure --calibrate --device "$device" -o "$out/profile.json" || exit 1
cat "$out/profile.json"

seconds=$(share 40)
# shellcheck disable=SC2086
step "$seconds" "plans on $device" "$build/bench/bench_device" --device "$device" --times "${TIMES:-5}" \
    --max-seconds "$((seconds * 9 / 10))" ${PLANS:-} 2>&1 | tee "$out/plans.log"
[ "${PIPESTATUS[0]}" = 0 ] || status=1

seconds=$(share 45)
MAGIS_DEVICE=$device MAGIS_SECONDS=$((seconds * 8 / 10)) \
    step "$seconds" "operators on $device beside the reference" "$build/tests/test_measure" 2>&1 | tee "$out/correct.log"
[ "${PIPESTATUS[0]}" = 0 ] || status=1
while read -r dtype tried all; do
    [ $((2 * tried)) -ge "$all" ] || failed "operators in $dtype: $tried of $all samples"
done < <(sed -nE 's/^([a-z0-9]+) on .*: ([0-9]+) of ([0-9]+) samples$/\1 \2 \3/p' "$out/correct.log")

# shellcheck disable=SC2086
time_networks ${NETWORKS:-}
