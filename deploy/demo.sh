#!/bin/sh
# The main job on a real network: starts a daemon, posts BERT's training step, shows what it found and
# keeps the page open. MAGISD_DEMO_EXIT=1 ends it by itself; MAGISD_DEMO_SECONDS is the search time.
set -u
here=$(dirname "$0")
exec python3 "$here/demo.py" "${BUILD:-build}/magisd"
