#!/usr/bin/env bash
# The scores of lm-evaluation-harness for two small models, with the comparison that comes with them.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
reference=${KVSHIFT_SHARED:-}/data/eval-reference check=${KVSHIFT_SHARED:-}/tools/evalcheck.py
[[ -e $reference/expected.json && -e $check ]] || { echo "skipped: no \$KVSHIFT_SHARED/data/eval-reference"; exit 77; }
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
for model in plain shifted; do
    python3 "$check" "$KVSHIFT" "$reference/expected.json" "$KVSHIFT_SHARED/data" "$reference/$model" ||
        fail "the scores of $model differ"
done
