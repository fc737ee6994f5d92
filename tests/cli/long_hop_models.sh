#!/usr/bin/env bash
# Published hop-k models have their known error rates, with and without dropout.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
models=${KVSHIFT_SHARED:-}/data/hopk
[[ -d $models ]] || { echo "skipped: no hop-k models in '$models'" >&2; exit 77; }

for depth in 2 3; do
    for dropout in 0 0.1; do
        "$KVSHIFT" repro hop-k --scale desk --model "$models/width4-depth$depth.safetensors" \
            --dropout $dropout --out "$depth-$dropout" --quiet >out 2>err || fail "$(cat err)"
        grep -q "^reproduced  *a trained model of $depth layers errs as it is known to" out ||
            fail "depth $depth, dropout $dropout: $(cat out)"
        grep -q '"here",16,' "$depth-$dropout/errors.csv" || fail "no error at 16 hops"
    done
done
# Without dropout two hops are right three times as often; this compares the two error rates.
error() { # FOLDER
    sed -n 's/^"","here",2,\([0-9.e-]*\),.*/\1/p' "$1/errors.csv"
}
awk -v off="$(error 2-0)" -v on="$(error 2-0.1)" 'BEGIN { exit !(off > 0 && 2 * off < on) }' ||
    fail "dropout off $(error 2-0), on $(error 2-0.1)"

refused() { # TEXT ARGUMENT...
    local text=$1 code=0
    shift
    "$KVSHIFT" repro "$@" --out refused --quiet >out 2>err || code=$?
    [[ $code != 0 && $(cat err) == *"$text"* ]] || fail "'$*' exits $code: $(cat err)"
}
refused "takes no model" theorem1 --model "$models/width4-depth2.safetensors"
refused "needs a model that is given" hop-k --dropout 0.1
refused "nowhere.safetensors" hop-k --model nowhere.safetensors
