#!/usr/bin/env bash
# From a text to a model: tokenizer, corpus, training, generation, perplexity.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
value() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"; }

# A text that a small model can learn by heart, with characters of more than one byte.
for i in $(seq 400); do
    echo "line $((i % 7)): the cat sat on the mat — und die Bäume grün."
done >text.txt

"$KVSHIFT" tokenizer train text.txt --vocab 300 --special '<|endoftext|>' --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus --dim 64 --heads 4 --layers 1 --context 64 --batch 8 --steps 150 \
    --lr 4e-3 --out run --quiet >out
grep -q '^loss .*perplexity .* validation text$' out || fail "train prints: $(cat out)"
[[ -s run/tokenizer.json ]] || fail "the tokenizer is not with the model"

# The perplexity shows that the model has learned the text.
"$KVSHIFT" ppl -m run text.txt --quiet --json >ppl.json
awk -v loss="$(value ppl.json loss)" 'BEGIN { exit !(loss < 0.5) }' || fail "$(cat ppl.json)"
[[ $(value ppl.json bytes) == $(stat -c %s text.txt) ]] || fail "$(cat ppl.json)"
"$KVSHIFT" ppl -m run --window 32 --stride 32 --quiet - <text.txt >out
grep -q 'window 32, stride 32' out || fail "ppl prints: $(cat out)"

# Generated text is valid UTF-8, equal for equal seeds, and greedy at temperature 0.
"$KVSHIFT" generate -m run -p 'the cat' -n 24 --temp 0 >first
grep -q 'sat on the mat — und die Bäume grün' first || fail "generate prints: $(cat first)"
printf 'the cat' | "$KVSHIFT" generate -m run -n 24 --temp 0 >second
cmp first second || fail "standard input is not the prompt"
iconv -f utf-8 -t utf-8 first >/dev/null || fail "broken characters: $(od -c first)"
"$KVSHIFT" generate -m run -p line -n 30 --temp 1.5 --seed 3 >one
"$KVSHIFT" generate -m run -p line -n 30 --temp 1.5 --seed 3 --threads 1 >two
"$KVSHIFT" generate -m run -p line -n 30 --temp 1.5 --seed 4 >three
cmp one two || fail "the same seed gives a different text"
! cmp -s one three || fail "another seed gives the same text"

# Ids and JSON.
ids=$("$KVSHIFT" tokenizer encode -t tok.json --text 'the cat' --no-special | tr ' ' ,)
"$KVSHIFT" generate -m run --ids "$ids" -n 24 --temp 0 --json >out
[[ $(tr -d ' \n' <out) == '{"ids":['* ]] || fail "$(cat out)"
grep -q 'sat on the mat' out || fail "$(cat out)"

# Samples are printed and recorded and do not change training; a checkpoint is a complete model.
small=(--data corpus --dim 32 --heads 2 --layers 1 --context 32 --batch 4 --steps 6)
"$KVSHIFT" train "${small[@]}" --out plain --quiet >/dev/null
"$KVSHIFT" train "${small[@]}" --out sampled --checkpoint-every 3 --sample-every 2 \
    --sample-prompt 'the cat' --sample-tokens 5 --sample-temp 0 >out 2>err
cmp plain/model.safetensors sampled/model.safetensors || fail "samples change the training"
[[ $(grep -c '^step [246]: sample$' err) == 3 ]] || fail "train prints: $(cat err)"
grep -q '^  | the cat' err || fail "no sample is shown: $(cat err)"
[[ $(wc -l <sampled/samples.jsonl) == 3 ]] || fail "$(cat sampled/samples.jsonl)"
grep -q '^{"step":6,"prompt":"the cat","text":"' sampled/samples.jsonl || fail "$(cat sampled/samples.jsonl)"
cmp run/tokenizer.json sampled/ckpt/latest/tokenizer.json ||
    fail "a different tokenizer in a checkpoint"
"$KVSHIFT" generate -m sampled/ckpt/latest -p 'the cat' -n 5 --temp 0 --ignore-eos >one
"$KVSHIFT" generate -m sampled -p 'the cat' -n 5 --temp 0 --ignore-eos >two
cmp one two || fail "the last checkpoint generates a different text than the model"

# A resumed run drops the samples that it repeats; without --prompt a prompt is chosen.
rm -r sampled/ckpt/step-00000006
"$KVSHIFT" train "${small[@]}" --out sampled --sample-every 2 --resume --quiet >/dev/null
[[ $(sed 's/.*"step":\([0-9]*\),.*/\1/' sampled/samples.jsonl | tr '\n' ' ') == "2 4 6 " ]] ||
    fail "after resume: $(cat sampled/samples.jsonl)"
cmp plain/model.safetensors sampled/model.safetensors ||
    fail "resume with samples gives different weights"

# Errors are one line with the reason.
refused() { # CODE TEXT ARGUMENT...
    local code=0
    "$KVSHIFT" "${@:3}" >out 2>err </dev/null || code=$?
    [[ $code == "$1" && $(wc -l <err) == 1 ]] || fail "'${*:3}' exits $code: $(cat err)"
    grep -qF -- "$2" err || fail "'${*:3}' prints: $(cat err)"
}
refused 2 "required" generate -p x
refused 2 "found 'x'" generate -m run --ids 1,x
refused 2 "expected 0 to" generate -m run --ids 999999
refused 1 "nowhere" generate -m nowhere -p x
refused 2 "window" ppl -m run text.txt --window 65
refused 1 "nowhere" ppl -m run nowhere.txt
refused 2 "exclude each other" train --data corpus --task ngram
refused 2 "'--pool' is for task induction" train --data corpus --pool 3
refused 1 "nowhere" train --data nowhere
refused 2 "'--sample-every' needs '--data'" train --sample-every 2
refused 2 "'--sample-prompt': expected 1 to 32 tokens" train "${small[@]}" --sample-every 2 \
    --sample-prompt "$(printf '!%.0s' $(seq 33))"

# The attention of every head on a text, with its tokens; a page with losses by time and work, and samples.
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" analyze run --text 'the cat sat' --svg text.svg >/dev/null
    for part in '·sat\|·s' 'α = (' 'β = ('; do
        grep -q "$part" text.svg || fail "the drawing has no '$part'"
    done
    "$KVSHIFT" train --data corpus "${small[@]}" --steps 4 --sample-every 2 --out drawn --quiet >/dev/null
    "$KVSHIFT" report drawn --html page.html >/dev/null
    for part in 'time of training steps' 'work (TFLOP)' 'Step 4' '<pre><b>'; do
        grep -qF "$part" page.html || fail "the page has no '$part'"
    done
fi
refused 2 "'--text' needs '--svg'" analyze run --text 'the cat'
refused 2 "expected at most 40" analyze run --text "$(printf '! %.0s' $(seq 50))" --svg x.svg
echo "passed"
