#!/bin/bash
# Measurements: `bench.sh bench` runs the programs BUILD/bench/* and the scripts tests/bench/*.{sh,py},
# `bench.sh accept` those whose name starts with accept. Seconds mean little without the machine:
# it is named first.
set -eu
cd "$(dirname "$0")/.."
BUILD=$(realpath "${BUILD:-build}")
export BUILD MAGISD="$BUILD/magisd"
kind=${1:-bench}
echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors"
shopt -s nullglob
run=0
for item in tests/bench/*.c tests/bench/*.sh tests/bench/*.py; do
    name=$(basename "$item")
    case $name in
    accept*) [ "$kind" = accept ] || continue ;;
    lib*) continue ;;
    *) [ "$kind" = bench ] || continue ;;
    esac
    echo "== $name"
    case $name in
    *.c) "$BUILD/bench/${name%.c}" ;;
    *.sh) bash "$item" ;;
    *.py) python3 "$item" ;;
    esac
    run=$((run + 1))
done
[ $run -gt 0 ] || { echo "nothing in tests/bench to $kind" >&2; exit 1; }
