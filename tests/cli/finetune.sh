#!/usr/bin/env bash
# Fine-tuning: conversations and texts as --data, the defaults, the split, resuming, errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
chats=$here/../../examples/chats/where.jsonl

# refused CODE TEXT ARGUMENT...: one line on standard error, no --out.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    timeout 60 "$KVSHIFT" "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -e new ]] || fail "'$*' leaves $(find new)"
}

# A model with a tokenizer that has the marks of the template zephyr as ordinary text.
sed 's/[^a-zA-Z ]\+/ /g' "$chats" >words.txt
"$KVSHIFT" tokenizer train words.txt --vocab 400 --special '<s>' --special '</s>' --out tok.json \
    >/dev/null 2>&1
small=(--shift none --dim 32 --heads 2 --layers 2 --context 160)
"$KVSHIFT" train --data "$chats" -t tok.json --chat-template zephyr "${small[@]}" --steps 2 --batch 4 \
    --seed 3 --out model --quiet >/dev/null
[[ -f model/chat_template.jinja && -f model/tokenizer.json && -f model/sources.json ]] ||
    fail "files of a run: $(ls model)"
rm model/chat_template.jinja

# One command: the template, the split, and defaults for fine-tuning are printed before training.
"$KVSHIFT" train --init-from model --retrofit kv --data "$chats" --chat-template zephyr \
    --out one >out 2>err
grep -q '^data: 46 conversations with [0-9]* tokens, a loss on [0-9]*; for validation 2 with' err ||
    fail "the data: $(cat err)"
grep -q '^plan: 9 steps of 16 sequences, 3.13 epochs, rate 5e-05 (cosine)$' err || fail "$(cat err)"
[[ $(grep -n '^plan' err | cut -d: -f1) -lt $(grep -n '^step 1/9' err | cut -d: -f1) ]] ||
    fail "the plan is not printed first: $(cat err)"
grep -q '^loss .* on 2 conversations of the validation text$' out || fail "$(cat out)"
grep -q '"name":"records","path":.*"kind":"messages",.*"loss":"answer"' one/train.jsonl ||
    fail "$(head -1 one/train.jsonl)"
grep -q '^epochs = 3 .*computed' one/config.resolved.toml || fail "$(grep ^epochs one/config.resolved.toml)"
grep -q '^lr = 5e-05' one/config.resolved.toml || fail "$(grep ^lr one/config.resolved.toml)"
grep -q 'where.jsonl' one/sources.json || fail "$(cat one/sources.json)"
"$KVSHIFT" report one >page
grep -qi 'validation loss' page || fail "a report of the run: $(cat page)"

# The template is in the run folder, so that chat finds it.
echo "The hat is red. What color is the hat?" | "$KVSHIFT" chat -m one -n 3 --json >out ||
    fail "the result cannot chat"

# The same loss whatever the number of threads; all tokens have a loss with --loss all.
"$KVSHIFT" train --init-from model --retrofit kv --data "$chats" --chat-template zephyr --threads 1 \
    --out again --quiet >/dev/null
cmp one/model.safetensors again/model.safetensors || fail "one thread gives other bits"
targets() { sed -n 's/.*"train_targets":\([0-9]*\).*/\1/p' "$1/train.jsonl" | head -1; }
"$KVSHIFT" train --init-from model --data "$chats" --chat-template zephyr --loss all --steps 1 \
    --out all --quiet >/dev/null
[[ $(targets all) -gt $((2 * $(targets one))) ]] || fail "--loss all: $(targets all), $(targets one)"

# --show prints what has a loss.
"$KVSHIFT" train --init-from model --data "$chats" --chat-template zephyr --show 3 >out
[[ $(grep -c '^<|user|>$' out) -ge 3 && $(grep -c '^loss on  .*\.</s>$' out) -ge 3 ]] ||
    fail "--show: $(cat out)"

# ---- resuming ----

ft=(train --init-from model --retrofit kv --data chats.jsonl --chat-template zephyr --batch 8
    --epochs 2 --lr 1e-3 --quiet)
cp "$chats" chats.jsonl
"$KVSHIFT" "${ft[@]}" --out whole >/dev/null
"$KVSHIFT" "${ft[@]}" --checkpoint-every 5 --keep 0 --out parts >/dev/null
for ckpt in parts/ckpt/*; do
    [[ $ckpt == *00005 ]] || rm -r "$ckpt"
done
"$KVSHIFT" train --resume --out parts --quiet >/dev/null
cmp whole/model.safetensors parts/model.safetensors || fail "a resumed run has other weights"
rm parts/model.safetensors
sed -i '1s/kite/boat/g' chats.jsonl
refused 2 "task setting 'train_" train --resume --out parts --quiet
cp "$chats" chats.jsonl
"$KVSHIFT" train --resume --epochs 3 --out parts --quiet >out
grep -q '^steps     18$' out || fail "more epochs: $(cat out)"

# ---- lengths ----

"$KVSHIFT" train --init-from model --data "$chats" --chat-template zephyr --sequence-tokens 48 \
    --steps 1 --out short >out 2>err
grep -q '^data: [0-9]* conversations cut at 49 tokens' err || fail "cut: $(cat err)"
refused 1 "where.jsonl' line 1: the conversation has more than 49 tokens" train --init-from model \
    --data "$chats" --chat-template zephyr --sequence-tokens 48 --too-long refuse --out new
refused 2 "option '--sequence-tokens' is 999, but the context is 160" train --init-from model \
    --data "$chats" --chat-template zephyr --sequence-tokens 999 --out new

# ---- other kinds of data ----

for i in $(seq 40); do
    printf '{"prompt": "Is %d even? ", "response": "%s"}\n' "$i" "$([[ $((i % 2)) == 0 ]] && echo yes || echo no)"
done >pairs.jsonl
head -4 pairs.jsonl >few.jsonl
"$KVSHIFT" train --init-from model --data pairs.jsonl --valid-data few.jsonl --steps 3 --sample-every 3 \
    --out pairs >out 2>err
grep -q '^data: 40 conversations .*; for validation 4 with' err || fail "pairs: $(cat err)"
grep -q 'Is [0-9]* even' pairs/samples.jsonl || fail "the prompt of a sample: $(cat pairs/samples.jsonl)"
for i in $(seq 300); do echo "line $i of a text"; done >text.txt
"$KVSHIFT" train --init-from model --data text.txt --steps 2 --out text >out 2>err
grep -q '^data: 1 document with ' err || fail "a text: $(cat err)"
"$KVSHIFT" train --data text.txt -t bytes "${small[@]}" --epochs 1 --batch 8 --out bytes --quiet >out
grep -q 'windows of the validation text' out || fail "$(cat out)"
"$KVSHIFT" train --data text.txt -t bytes "${small[@]}" --steps 2 --batch 8 --quiet >/dev/null ||
    fail "a text without --out"
"$KVSHIFT" data build text.txt -t bytes --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus "${small[@]}" --epochs 1 --batch 8 --quiet --out corpus-run >out
grep -q '^steps     [0-9]$' out || fail "epochs of a corpus: $(cat out)"

# ---- errors ----

base=(train --init-from model --out new)
refused 2 "has no chat template; name one (chatml" "${base[@]}" --data "$chats"
refused 2 "'$chats' has messages, which need a chat template" train --data "$chats" -t tok.json \
    "${small[@]}" --out new
refused 2 "is a text file: name its tokenizer with '--tokenizer' (-t), or build a corpus" train \
    --data text.txt "${small[@]}" --out new
refused 2 "option '--chat-template' is for messages, but 'pairs.jsonl' has none" "${base[@]}" \
    --data pairs.jsonl --chat-template chatml
refused 2 "option '--too-long' is for conversations, but 'text.txt' has none" "${base[@]}" \
    --data text.txt --too-long cut
refused 2 "option '--loss' is for conversations, but 'text.txt' has none" "${base[@]}" \
    --data text.txt --loss all
refused 2 "option '--tokenizer' is for a .jsonl or text file" "${base[@]}" --data corpus -t bytes
refused 2 "option '--loss' is for task induction" "${base[@]}" --data corpus --loss all
refused 2 "option '--epochs' needs '--data'" train --epochs 2 --out new
refused 2 "option '--steps' is 5, but '--epochs' 1 makes 3 steps of 16 sequences" "${base[@]}" \
    --data "$chats" --chat-template zephyr --epochs 1 --steps 5
refused 2 "differs from that of '$chats'" "${base[@]}" --data "$chats" -t bytes --chat-template zephyr
printf '{"prompt": "a", "response": "b"}\n{"messages": []}\n' >mixed.jsonl
refused 1 "'mixed.jsonl' line 2: expected 'prompt' and 'response', found the fields 'messages'" \
    "${base[@]}" --data mixed.jsonl
printf '{"question": "a", "answer": "b"}\n' >names.jsonl
refused 1 "'names.jsonl' line 1: expected 'messages', 'prompt' and 'response', or 'text', found the fields 'question', 'answer'" \
    "${base[@]}" --data names.jsonl
: >empty.jsonl
refused 1 "'empty.jsonl' has no records" "${base[@]}" --data empty.jsonl
refused 1 "'none.jsonl'" "${base[@]}" --data none.jsonl
echo "passed"
