#!/usr/bin/env bash
# PyTorch trains our model from our weights to the same losses; otherwise bench/vs_pytorch fails.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"

python=/usr/bin/python3
if ! "$python" -c 'import torch' 2>/dev/null; then
    echo "skipped: $python has no PyTorch (Debian: python3-torch)"
    exit 77
fi
here=$(cd "$(dirname "$0")/../../bench" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Models with grouped heads and with the largest head size; few tokens to keep the test short.
for model in tiny kvlm; do
    "$python" "$here/vs_pytorch" --kvshift "$KVSHIFT" --python "$python" --model "$model" \
        --batch 2 --length 24 --rounds 1 --json "$work/$model.json" >"$work/out"
    [[ $(grep -c 'x faster$' "$work/out") == 2 ]] || fail "no two ratios: $(cat "$work/out")"
    for key in kvshift_faster_than_fastest fraction_of_peak loss_first attention; do
        grep -q "\"$key\": " "$work/$model.json" || fail "no '$key': $(cat "$work/$model.json")"
    done
done

# With another batch the losses differ and no speed is compared.
"$KVSHIFT" bench train --model tiny --batch 2 --length 24 --paced --save "$work/one" <<<$'\n\n' \
    >/dev/null
cat >"$work/python" <<END
#!/bin/sh
# runs the peer on the batch of another length
exec "$python" "\$1" "$work/one" "\$3" "\$4" --length 24
END
chmod +x "$work/python"
code=0
"$python" "$here/vs_pytorch" --kvshift "$KVSHIFT" --python "$work/python" --model tiny --batch 2 \
    --length 20 --rounds 1 >"$work/out" 2>"$work/err" || code=$?
[[ $code == 1 ]] || fail "different batches exit $code: $(cat "$work/out")"
grep -q 'do not train the same model' "$work/err" || fail "it prints: $(cat "$work/err")"
echo "passed"
