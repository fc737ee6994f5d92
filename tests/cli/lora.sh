#!/usr/bin/env bash
# Low-rank adapters: training, resuming, running, merging, and a shift without training.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
chats=$here/../../examples/chats/where.jsonl

# refused CODE TEXT ARGUMENT...: one line on standard error, and no folder 'new'.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    timeout 60 "$KVSHIFT" "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -e new ]] || fail "'$*' leaves $(find new)"
}

sed 's/[^a-zA-Z ]\+/ /g' "$chats" >words.txt
"$KVSHIFT" tokenizer train words.txt --vocab 400 --special '<s>' --special '</s>' --out tok.json \
    >/dev/null 2>&1
"$KVSHIFT" train --data "$chats" -t tok.json --chat-template zephyr --shift none --dim 32 --heads 2 \
    --layers 2 --context 160 --steps 2 --batch 4 --seed 3 --out model --quiet >/dev/null

# ---- training ----

lora=(train --init-from model --retrofit kv --lora 4 --lora-alpha 8 --data "$chats"
    --chat-template zephyr --batch 8 --quiet)
"$KVSHIFT" "${lora[@]}" --steps 8 --lr 1e-2 --eval-every 8 --out run >/dev/null
grep -q '"lora":{"rank":4,"alpha":8.0,"on":"q_proj,' run/train.jsonl || fail "$(head -1 run/train.jsonl)"
grep -q '^lora = 4' run/config.resolved.toml || fail "$(grep lora run/config.resolved.toml)"
[[ -f run/adapter_config.json && -f run/adapter_model.safetensors ]] || fail "files: $(ls run)"
grep -q '"lora_alpha": 8.0' run/adapter_config.json || fail "$(cat run/adapter_config.json)"
"$KVSHIFT" "${lora[@]}" --steps 8 --lr 1e-2 --eval-every 8 --threads 1 --out single >/dev/null
cmp run/model.safetensors single/model.safetensors || fail "one thread gives other bits"

# A step with learning rate 0 leaves the loss of the model without adapters.
"$KVSHIFT" "${lora[@]}" --steps 1 --lr 0 --out zero >/dev/null
"$KVSHIFT" train --init-from model --data "$chats" --chat-template zephyr --batch 8 --steps 1 --lr 0 \
    --quiet --out plain >/dev/null
loss() { sed -n 's/.*"loss":\([0-9.e-]*\).*/\1/p' "$1/train.jsonl" | tail -1; }
[[ $(loss zero) == $(loss plain) ]] || fail "new adapters change the loss: $(loss zero) $(loss plain)"

# The plan has neither gradients nor moments of frozen matrices.
bytes() { # WHAT OPTION...
    "$KVSHIFT" train --init-from model --data "$chats" --chat-template zephyr --dry-run "${@:2}" |
        awk -v what="$1" '$1 == what { print int($2 * ($2 ~ /k/ ? 1000 : $2 ~ /M/ ? 1e6 : 1)) }'
}
for what in gradients moments; do
    all=$(bytes $what) some=$(bytes $what --lora 1 --lora-on q_proj)
    [[ $some -gt 0 && $all -gt $((10 * some)) ]] || fail "$what: $some with adapters, $all without"
done

# ---- resuming ----

"$KVSHIFT" "${lora[@]}" --steps 8 --lr 1e-2 --eval-every 8 --checkpoint-every 3 --keep 0 --out parts \
    >/dev/null
[[ -f parts/ckpt/step-00000003/adapter_model.safetensors ]] || fail "$(ls parts/ckpt/step-00000003)"
for ckpt in parts/ckpt/*; do
    [[ $ckpt == *00003 ]] || rm -r "$ckpt"
done
"$KVSHIFT" train --resume --out parts --quiet >/dev/null
cmp run/model.safetensors parts/model.safetensors || fail "a resumed run has other weights"
cmp run/adapter_model.safetensors parts/adapter_model.safetensors || fail "and other adapters"
refused 2 "option '--lora' is 8, but the run in 'parts' has 4" train --resume --lora 8 --out parts --quiet

# ---- running and merging ----

ids() { "$KVSHIFT" generate -m "$1" -p "The hat" -n 12 --temp 0 --json 2>/dev/null | grep -o '"ids":[^]]*'; }
"$KVSHIFT" convert run merged --merge --quiet
grep -q '"targets": "kv"' merged/config.json || fail "$(cat merged/config.json)"
grep -q lora merged/config.json && fail "adapters remain: $(cat merged/config.json)"
"$KVSHIFT" convert run merged.gguf --merge --quiet
for merged in merged merged.gguf; do
    [[ -n $(ids run) && $(ids run) == "$(ids $merged)" ]] || fail "$merged: $(ids run), $(ids $merged)"
done
echo "The hat is red. What color is the hat?" | "$KVSHIFT" chat -m run -n 3 --json >out ||
    fail "a run with adapters cannot chat"
mkdir adapter
cp run/adapter_* adapter
"$KVSHIFT" convert model shifted --retrofit kv --quiet
[[ $(ids model) == "$(ids shifted)" ]] || fail "a shift without training: $(ids model), $(ids shifted)"
"$KVSHIFT" convert adapter again --merge --base shifted --quiet
cmp merged/model.safetensors again/model.safetensors || fail "merged into its base it is another model"
"$KVSHIFT" convert adapter third --merge --base model --retrofit kv --quiet
cmp merged/model.safetensors third/model.safetensors || fail "and with a shift that is added"

# ---- errors ----

train=(train --init-from model --data "$chats" --chat-template zephyr --out new --quiet)
refused 2 "option '--lora': expected a rank of at least 1, found '0'" "${train[@]}" --lora 0
refused 2 "lora rank is 33, expected at most 32, the width of 'model.layers.0" "${train[@]}" --lora 33
refused 2 "'--lora' and '--only-shift' exclude each other" "${train[@]}" --lora 4 --only-shift
refused 2 "lora matrix 'q': the model's layers have none" "${train[@]}" --lora 4 --lora-on q
refused 1 "lora matrix 'lm_head'" "${train[@]}" --lora 4 --lora-on lm_head
refused 2 "option '--lora-on' needs '--lora'" "${train[@]}" --lora-on q_proj
refused 2 "option '--lora-alpha' needs '--lora'" "${train[@]}" --lora-alpha 2
refused 2 "option '--lora' needs '--init-from'" train --lora 4 --out new --quiet
refused 2 "the model already has adapters" train --init-from run --lora 4 --data "$chats" \
    --chat-template zephyr --out new --quiet
refused 1 "'run' has low-rank adapters, which no format has" convert run new
refused 2 "'model' has no adapters to merge" convert model new --merge
refused 2 "'adapter' does not name its model, expected a base" convert adapter new --merge
refused 1 "which has no shift: see --retrofit" convert adapter new --merge --base model
refused 2 "option '--base' needs '--merge'" convert model new --base model
refused 2 "the model is already shifted ('kv')" convert shifted new --retrofit k
refused 2 "options '--random' and '--merge' exclude each other" convert --random desk-1m new --merge
