#!/bin/bash
# On a machine with an NVIDIA card: builds, holds every operator against the reference executor, fits the card's profile,
# times the zoo's operators, executes plans, and prints the tables. Ends within 8 minutes. Rows and profile go to
# gpu-check/ (or the folder named). Say make deps first where packages are missing.
set -u
cd "$(dirname "$0")/.." || exit 2
out=${1:-gpu-check}
device=${MAGIS_DEVICE:-cuda:0}
deadline=$((SECONDS + 470))
status=0
mkdir -p "$out"

# step SECONDS TITLE COMMAND...: what is left of the time, at most SECONDS
step() {
    local most=$1 title=$2 left=$((deadline - SECONDS))
    shift 2
    [ $left -gt 5 ] || { echo "== $title: left out, the time is up"; status=1; return 1; }
    echo "== $title"
    timeout $((left < most ? left : most)) "$@" || { echo "gpu-check: $title failed" >&2; status=1; return 1; }
}

step 200 "build" make -s -j"$(nproc)" build/magisd build/tests/test_measure build/tests/test_cuda build/tests/test_cuda_kernels build/bench/bench_device || exit 1
step 30 "the driver's functions, recorded" build/tests/test_cuda
step 120 "kernels on the processor and through NVRTC" build/tests/test_cuda_kernels
step 90 "operators against the reference on $device" env MAGIS_DEVICE="$device" build/tests/test_measure
step 40 "profile of $device" build/magisd measure --calibrate --device "$device" -o "$out/profile.json" && cat "$out/profile.json"
for network in mlp resnet18 resnet50 bert-base gpt-neo-125m vit-base-16 unet; do
    step 40 "operators of $network" build/magisd measure "zoo:$network" --set batch=8 --training loss=mse,optimizer=sgd \
        --device "$device" -o "$out/$network.ndjson"
done
step 120 "plans as wholes" build/bench/bench_device --device "$device" mlp resnet18 bert-tiny
exit $status
