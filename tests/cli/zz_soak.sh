#!/usr/bin/env bash
# kvshift serve with 32 clients for a minute, or KVSHIFT_SOAK_SECONDS; ten thousand broken requests; what
# a long prompt does to the text of another client.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 for the clients"; exit 77; }
. "$here/serve.bash"
python3 "$here/../serve/serve_soak.py" "$KVSHIFT" run "${KVSHIFT_SOAK_SECONDS:-60}"
