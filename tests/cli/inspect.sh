#!/usr/bin/env bash
# Output of inspect: configuration, sizes, memory, coefficients; as text and as JSON.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# refused CODE TEXT ARGUMENT...: one line on standard error, nothing on standard output.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    "$KVSHIFT" inspect "$@" >out 2>err || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && ! -s out ]] || fail "'$*' prints: $(cat err out)"
    [[ $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
}

# has FILE LINE...: lines of the output, with single spaces.
has() {
    local file=$1 line
    shift
    for line; do
        tr -s ' ' <"$file" | sed 's/^ //' | grep -qxF -- "$line" ||
            fail "no '$line' in: $(cat "$file")"
    done
}

make() { # NAME OPTION...
    local name=$1
    shift
    "$KVSHIFT" train --dim 32 --vocab 32 --pool 16 --max-length 16 --batch 8 --eval-sequences 16 \
        --quiet --steps 1 --lr 0 --weight-decay 0 --out "$name" "$@" >/dev/null
}

# A shifted model.  Per layer: q, o 1024; k, v 512; MLP 3 x 3072; norms 64; 8 taps; and a last norm
# of 32.  With a learning rate of 0 the coefficients stay at the identity.
make kv --heads 4 --kv-heads 2 --layers 2 --shift-init identity
"$KVSHIFT" inspect kv >out
has out "body llama" "shift kv" "shift-init identity" "kv-heads 2" "ffn 96" "context 15" \
    "all 26800" "without embeddings 24752" "embeddings 2048" "weights 107kB" \
    "cache per token 256B" "shift state 256B per sequence" \
    "training 429kB for weights, gradients and moments" \
    "cache at full context 4096B for 15 tokens, shift state included" \
    "layer kv head α2 α1 Σα β2 β1 Σβ kind" \
    "1 1 0.0000 1.0000 1.0000 0.0000 1.0000 1.0000 α1>α2 β1>β2" \
    "α1>α2 4 0" "α1≤α2 0 0"
! grep -q 'rope-base\|dropout\|shift-window' out || fail "defaults are shown: $(cat out)"

# A model can be named by its folder or its files; --json has the same values.
for path in kv/ kv/config.json kv/model.safetensors; do
    "$KVSHIFT" inspect "$path" | cmp -s - out || fail "'$path' gives different output"
done
(cd kv && "$KVSHIFT" inspect config.json) | cmp -s - out ||
    fail "a bare file name gives different output"
"$KVSHIFT" inspect kv --json >out.json
has out.json '"shift_init": "identity",' '"kv_heads": 2,' '"all": 26800,' \
    '"without_embeddings": 24752,' '"full_cache_bytes": 4096,' '"current_current": 4,' \
    '"previous_previous": 0'
if command -v python3 >/dev/null; then
    python3 - <<'PYTHON' || fail "--json: $(cat out.json)"
import json
found = json.load(open("out.json"))
heads = found["coefficients"]["kv_heads"]
assert [(h["layer"], h["head"]) for h in heads] == [(0, 0), (0, 1), (1, 0), (1, 1)]
assert all(h["alpha"] == [0, 1] and h["beta_sum"] == 1 for h in heads)
assert heads[0]["kind"] == "current_current" and found["configuration"]["slopes"] == []
PYTHON
fi

# Output for every form of the shift.
make channel --shift qkv --shift-form channel --shift-init identity --shift-window 2 --kv-heads 2
"$KVSHIFT" inspect channel >out
has out "layer kv head α3 α2 α1 β3 β2 β1" "layer head γ3 γ2 γ1" \
    "0 3 0.0000 ± 0.0000 0.0000 ± 0.0000 1.0000 ± 0.0000"
make data --shift k --shift-form data --body gpt2
"$KVSHIFT" inspect data >out
has out "body gpt2" "positions learned" "layer kv head |w| α"
grep -Eq '^ +0 +3 +0\.[0-9]{4}$' out || fail "no length: $(cat out)"
make hard --shift v --shift-form hard --rotary-fraction 0.5
"$KVSHIFT" inspect hard >out
has out "rotary-fraction 0.5" "0 3 0.5000 ± 0.5000 0.5000 ± 0.5000"
make gate --shift gate --layers 3 --sliding-window 4 --sliding-layers 1 --sliding-heads 2
"$KVSHIFT" inspect gate >out
has out "shift-form gate" "sliding-layers 1" "sliding-heads 2" "sliding-kv-heads 2"
[[ $(grep -c '^ *1  .* 1\.0000 ' out) == 2 ]] || fail "layer 1 has not two heads: $(cat out)"
make vanilla --shift none
"$KVSHIFT" inspect vanilla >out
! grep -q coefficients out || fail "an unshifted model has coefficients: $(cat out)"

# config.json alone is enough for everything except the coefficients.
mkdir alone
cp kv/config.json alone
"$KVSHIFT" inspect alone >out
has out "all 26800" "coefficients: unknown, no weights in 'alone'"
"$KVSHIFT" inspect alone --json >out.json
has out.json '"coefficients": null'

# A checkpoint has checksums of its files; a plain folder has none.
make run --steps 2 --checkpoint-every 1
"$KVSHIFT" inspect --check run >out
grep -qx 'check: .* values, all finite; checksums: none' out || fail "$(cat out)"
"$KVSHIFT" inspect --check run/ckpt/latest >out
grep -qx 'check: .* values, all finite; checksums: correct' out || fail "$(cat out)"
"$KVSHIFT" inspect --check --json run/ckpt/latest >out.json
has out.json '"has_checksums": true' '"format": "safetensors",' '"dtype": "F32",'
size=$(stat -c %s run/ckpt/step-00000002/model.safetensors)
printf '\001' | dd of=run/ckpt/step-00000002/model.safetensors bs=1 seek=$((size - 9)) \
    conv=notrunc status=none
refused 1 "model.safetensors' is damaged: checksum" --check run/ckpt/latest
refused 1 "model.safetensors' is damaged: checksum" \
    --check run/ckpt/latest/model.safetensors
printf '\000\000\300\177' | dd of=run/model.safetensors bs=1 seek=$((size - 8)) conv=notrunc \
    status=none
refused 1 "has nan at" --check run

refused 1 "cannot open 'alone/model.safetensors'" alone/model.safetensors
refused 1 "cannot open 'nowhere'" nowhere
refused 1 "kv/result.json" kv/result.json
refused 2 "unknown option '--jso'" kv --jso
head -c 3000 kv/model.safetensors >alone/model.safetensors
refused 1 "alone/model.safetensors" alone
sed -i 's/"targets"/"target"/' alone/config.json
refused 1 "'alone/config.json': unknown key 'target' in 'kvshift'" alone
echo "passed"
