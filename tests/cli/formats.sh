#!/usr/bin/env bash
# Real model files of every format: each gives the same text and the right tokenizer is found.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# refused TEXT ARGUMENT...: exit 1 with one line on standard error.
refused() {
    local text=$1 code=0
    shift
    "$KVSHIFT" "$@" >out 2>err || code=$?
    [[ $code == 1 || $code == 2 ]] || fail "'$*' exits $code: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
}

data=${KVSHIFT_SHARED:-}/data
[[ -d $data/stories260K ]] || {
    echo "skipped: no data/stories260K below \$KVSHIFT_SHARED"
    exit 77
}
small=$data/stories260K
for model in stories260K.bin stories260K_v1.bin stories260K.gguf; do
    "$KVSHIFT" generate -m "$small/$model" -t "$small/tok512.bin" --ids 1 --temp 0 -n 256 >out
    cmp out "$small/expected_greedy.txt" || fail "$model generates a different text: $(cat out)"
    "$KVSHIFT" inspect --check "$small/$model" >out
    grep -q 'all finite' out || fail "inspect --check $model: $(cat out)"
done
"$KVSHIFT" inspect "$small/stories260K.gguf" --json >out
grep -q '"format": "GGUF"' out || fail "inspect --json: $(cat out)"

# The tokenizer is in the file, beside the file or in the folder; if none is found, a clear error.
"$KVSHIFT" generate -m "$small/stories260K.gguf" -p "Once upon" --temp 0 -n 20 >inside
refused "there is no tokenizer.json, tokenizer.model or tokenizer.bin; name a tokenizer with -t" \
    generate -m "$small/stories260K.bin" -p "Once upon"
ln -s "$small/stories260K.bin" model.bin
ln -s "$small/tok512.model" tokenizer.model
"$KVSHIFT" generate -m model.bin -p "Once upon" --temp 0 -n 20 >beside
cmp inside beside || fail "the tokenizers inside and beside the file differ"
printf 'Once upon a time, there was a cat.' >text
"$KVSHIFT" ppl -m model.bin text >ppl.bin
"$KVSHIFT" ppl -m "$small/stories260K.gguf" text >ppl.gguf
diff <(grep -i perplexity ppl.bin) <(grep -i perplexity ppl.gguf) || fail "perplexities differ"

# Training can start from weights of other programs.
"$KVSHIFT" train --init-from model.bin --retrofit kv --task induction --steps 1 --quiet --batch 4 \
    --eval-sequences 4 --out tuned >/dev/null
"$KVSHIFT" inspect --check tuned >out
grep -q '^  shift  *kv$' out || fail "no shift in the tuned model: $(cat out)"

# A shift that is added to a model of any family learns: the same sequences in every step, and only
# the shift changes.
loss_of_step() { sed -n "s/.*\"step\":$1,.*\"loss\":\([0-9.]*\).*/\1/p" shifted/train.jsonl; }
for family in llama-bias mistral qwen2-swa qwen3 granite smollm3 phi3-longrope olmo2 gemma2 gemma3 \
    gpt_neox gpt_neox-seq stablelm stablelm-parallel opt; do
    [[ -d $data/zoo/$family ]] || continue
    rm -rf shifted
    "$KVSHIFT" train --init-from "$data/zoo/$family" --retrofit kv --only-shift --task ngram \
        --alphabet 40 --answers 40 --pairs 64 --batch 64 --steps 20 --lr 1e-2 --warmup 1 --quiet \
        --out shifted >/dev/null
    awk "BEGIN { exit !($(loss_of_step 20) < 0.99 * $(loss_of_step 1)) }" ||
        fail "$family: the loss is $(loss_of_step 1) before and $(loss_of_step 20) after 20 steps"
done

# Text generation with the tokenizer of another program.
if command -v python3 >/dev/null && [[ -d $data/stories15M && -d $data/tokenizer-llama2 ]]; then
    python3 - "$KVSHIFT" "$data" <<'PYTHON' || fail "stories15M generates a different continuation"
import json, subprocess, sys
command, data = sys.argv[1:]
for case in json.load(open(f"{data}/stories15M/reference.json"))["cases"]:
    expected = case["greedy_continuation_ids"]
    found = subprocess.run(
        [command, "generate", "-m", f"{data}/stories15M/stories15M.bin", "-t",
         f"{data}/tokenizer-llama2", "-p", case["text"], "--temp", "0", "-n", str(len(expected)),
         "--json"], check=True, capture_output=True)
    assert json.loads(found.stdout)["ids"] == expected, case["text"]
PYTHON
fi
echo "passed"
