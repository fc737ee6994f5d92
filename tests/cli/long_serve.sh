#!/usr/bin/env bash
# kvshift serve with 32 clients for a minute, or KVSHIFT_SOAK_SECONDS; ten thousand broken requests; what
# a long prompt does to the text of another client.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 for the clients"; exit 77; }
. "$here/serve.bash"
python3 "$here/../serve/serve_soak.py" "$KVSHIFT" run "${KVSHIFT_SOAK_SECONDS:-60}"
python3 "$here/../serve/serve_hostile.py" "$KVSHIFT" run

# Prefixes of a model that cannot be cut anywhere, with a shift of everything.
"$KVSHIFT" train --data corpus --dim 64 --heads 4 --kv-heads 2 --layers 2 --context 1024 --batch 1 \
    --steps 5 --warmup 2 --shift qkv --shift-window 3 --sliding-window 16 --out sliding --quiet >/dev/null
python3 "$here/../serve/serve_soak.py" "$KVSHIFT" sliding 10
"$KVSHIFT" convert run run.gguf --format gguf --dtype q8_0 --quiet
KVSHIFT_KV_CACHE=f16 python3 "$here/../serve/serve_soak.py" "$KVSHIFT" run.gguf 10

# A model that feeds a few thousand tokens per second.
"$KVSHIFT" train --data corpus --dim 512 --heads 8 --layers 6 --context 1024 --batch 1 --steps 1 \
    --out slow --quiet >/dev/null
python3 "$here/../serve/serve_slices.py" "$KVSHIFT" slow
