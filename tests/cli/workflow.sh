#!/usr/bin/env bash
# From a text to a trained model and resume: default evaluations and notices, files that are never
# overwritten, and options that a second command may change.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
value() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"; }

# refused CODE TEXT ARGUMENT...: one line on standard error, and no folder `new`.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    timeout 60 "$KVSHIFT" "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -e new ]] || fail "'$*' leaves $(find new)"
}

for i in $(seq 400); do
    echo "line $((i % 7)): the cat sat on the mat $((i * i % 31)) times."
done >text.txt
tr 'a-m' 'n-z' <text.txt >other.txt
"$KVSHIFT" tokenizer train text.txt --vocab 300 --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --out corpus --quiet >/dev/null
small=(--dim 32 --heads 2 --layers 1 --context 32 --batch 4)

# ---- an existing tokenizer is kept unless --overwrite is given ----

cp tok.json kept.json
refused 2 "'tok.json' already exists; --overwrite replaces it" \
    tokenizer train other.txt --vocab 270 --out tok.json
cmp tok.json kept.json || fail "a refused tokenizer was written"
"$KVSHIFT" tokenizer train other.txt --vocab 270 --out kept.json --overwrite >/dev/null 2>&1
! cmp -s tok.json kept.json || fail "--overwrite does not replace"

# ---- evaluations and the epoch do not change the weights ----

"$KVSHIFT" train --data corpus "${small[@]}" --steps 40 --dropout 0.1 --out run >out 2>err
evaluations=$(grep -c '"eval_loss"' run/train.jsonl)
((evaluations >= 10 && evaluations <= 20)) || fail "$evaluations evaluations by default"
grep -q '^eval-every = 2 .*# computed from other settings' run/config.resolved.toml ||
    fail "$(grep eval-every run/config.resolved.toml)"
grep -Eq '^step 40/40  loss [0-9.]+  .* left  epoch [0-9]+\.[0-9]{2}  ' err || fail "no epoch is printed: $(cat err)"
windows=$(head -1 run/train.jsonl | sed 's/.*"train_windows":\([0-9]*\).*/\1/')
grep -q "^step 40/40 .*  epoch $(awk -v w="$windows" 'BEGIN { printf "%.2f", 40 * 4 / w }')  " err ||
    fail "$windows windows: a different epoch is printed: $(tail -1 err)"
"$KVSHIFT" train --data corpus "${small[@]}" --steps 40 --dropout 0.1 --eval-every 0 --out bare \
    --quiet >/dev/null
! grep -q '"eval_loss"' bare/train.jsonl || fail "--eval-every 0 evaluates"
cmp run/model.safetensors bare/model.safetensors || fail "evaluations change the weights"
for steps in 1 9 10 99 100 333 600 1000 4999 250000; do
    "$KVSHIFT" train --data corpus "${small[@]}" --steps "$steps" --max-time 0.00001 --quiet \
        --eval-sequences 1 --out "every-$steps" >/dev/null
    every=$(sed -n 's/^eval-every = \([0-9]*\) .*/\1/p' "every-$steps/config.resolved.toml")
    ((steps < 10 && every == 1 || (steps / every >= 10 && steps / every <= 20))) ||
        fail "$steps steps are evaluated every $every"
done

# ---- results have a place without --out; with --out none, notices before and after the run ----

"$KVSHIFT" train --data corpus "${small[@]}" --steps 2 --out none >out 2>err
grep -qx 'nothing is saved: --out none' err || fail "no notice: $(cat err)"
grep -qx 'files     none: --out none' out || fail "no notice: $(cat out)"
[[ ! -e runs ]] || fail "--out none left files"
for number in 1 2; do
    "$KVSHIFT" train --data corpus "${small[@]}" --steps 2 >out 2>err
    grep -qx "the run is saved in runs/corpus-$number" err || fail "no notice: $(cat err)"
    [[ -s runs/corpus-$number/model.safetensors ]] || fail "run $number is not saved: $(find runs)"
done
"$KVSHIFT" train --task ngram --dim 16 --heads 2 --steps 1 --batch 2 --eval-sequences 2 --quiet >out
[[ -s runs/ngram-1/model.safetensors ]] || fail "a task's run is not saved"
"$KVSHIFT" train --data corpus "${small[@]}" --dry-run >/dev/null
"$KVSHIFT" train --task ngram --show 1 >/dev/null
[[ $(ls runs | paste -sd ' ') == "corpus-1 corpus-2 ngram-1" ]] || fail "runs: $(ls runs)"
rm -r runs
refused 2 "'--resume' needs '--out'" train --data corpus "${small[@]}" --resume
"$KVSHIFT" tokenizer train text.txt --vocab 270 >out 2>err
[[ -s text.tokenizer.json ]] || fail "tokenizer train: $(cat out err)"
"$KVSHIFT" data build text.txt -t tok.json >out 2>err
[[ -s corpora/text/corpus.json ]] && grep -qx 'the corpus is saved in corpora/text' err ||
    fail "data build: $(cat out err)"

# ---- the end by patience, and the best model ----

"$KVSHIFT" train --data corpus "${small[@]}" --steps 400 --lr 0.1 --eval-every 5 --patience 3 \
    --save-best --out best --quiet >out 2>err
grep -q '^kvshift: ended after step [0-9]*: 3 evaluations without a loss below' err ||
    fail "no early end: $(cat err)"
lowest=$(sed -n 's/.*"eval_loss":\([0-9.]*\).*/\1/p' best/train.jsonl | sort -g | head -1)
final=$(sed -n 's/.*"final_loss": *\([0-9.]*\).*/\1/p' best/result.json)
awk -v a="$lowest" -v b="$final" 'BEGIN { exit !(a - b < 1e-6 && b - a < 1e-6) }' ||
    fail "the best loss is $lowest, that of the model $final"
cmp best/model.safetensors best/ckpt/best/model.safetensors || fail "the model is not the best one"
"$KVSHIFT" train --resume --out best --steps 410 --quiet >out 2>err || fail "cannot continue: $(cat err)"
refused 2 "patience needs evaluations" train --data corpus "${small[@]}" --eval-every 0 \
    --patience 2 --steps 3 --out new

# ---- tensors that are frozen by name ----

"$KVSHIFT" train --init-from run --data corpus --steps 3 --batch 4 --rates 'embed_tokens=0' --out frozen \
    --quiet >out 2>err || fail "--rates: $(cat err)"
grep -q '"rates":"embed_tokens=0"' frozen/train.jsonl || fail "the rates are not in the log"
refused 2 "no tensor is named 'embedding'" train --init-from run --data corpus --steps 3 --batch 4 \
    --rates embedding=0 --out new
refused 2 "unknown option '--freeze'; did you mean '--rates'?" train --freeze embed_tokens

# ---- held-out text, and a warning for text that was trained on ----

"$KVSHIFT" ppl -m run text.txt --quiet >out 2>err
[[ $(wc -l <err) == 1 ]] && grep -q "^kvshift: the model was trained on 'text.txt'" err ||
    fail "no warning: $(cat err)"
"$KVSHIFT" ppl -m run other.txt text.txt text.txt --quiet >out 2>err
[[ $(wc -l <err) == 1 ]] || fail "not one warning: $(cat err)"
"$KVSHIFT" ppl -m run other.txt --quiet >out 2>err
[[ ! -s err ]] || fail "a warning for a text that was not trained on: $(cat err)"
"$KVSHIFT" ppl -m run --data corpus --quiet >out 2>err
grep -q "of the validation split of 'corpus'" out && [[ ! -s err ]] || fail "ppl: $(cat out err)"
"$KVSHIFT" ppl -m run --data corpus --window 32 --stride 32 --quiet --json >out
[[ $(value out split) == valid ]] || fail "ppl: $(cat out)"

# ---- a model keeps its tokenizer ----

"$KVSHIFT" data build text.txt -t kept.json --out foreign --quiet >/dev/null
hash_of() { "$KVSHIFT" tokenizer info -t "$1" --json | sed -n 's/.*"hash": "\(.*\)".*/\1/p'; }
small_more=(--batch 4 --steps 2 --quiet)
refused 2 "the tokenizer of 'run' (hash $(hash_of tok.json)) differs from that of 'foreign' (hash $(
    hash_of kept.json)); --new-tokenizer" train --init-from run --data foreign "${small_more[@]}" --out new
"$KVSHIFT" train --init-from run --data foreign "${small_more[@]}" --new-tokenizer --out renewed \
    >/dev/null 2>err
grep -q "^kvshift: 'run' is trained with the tokenizer of 'foreign'" err || fail "no notice: $(cat err)"
cmp renewed/tokenizer.json foreign/tokenizer.json || fail "not the corpus's tokenizer"
"$KVSHIFT" train --init-from run --data corpus "${small_more[@]}" --out tuned >/dev/null 2>err
[[ ! -s err ]] || fail "its own tokenizer: $(cat err)"
cp -r run untold
rm untold/tokenizer.json
"$KVSHIFT" train --init-from untold --data foreign "${small_more[@]}" --out told >/dev/null ||
    fail "a model without a tokenizer cannot be trained"
refused 2 "option '--new-tokenizer' needs '--init-from'" train --new-tokenizer --data corpus --out new

# ---- memory: a plan that is too large is refused before any allocation ----

refused 1 "are free; see --recompute, --accumulate, --batch, or --overcommit" \
    train --layers 4096 --dim 32768 --heads 256 --vocab 64 --pool 32 --out new
grep -Eq '^kvshift: needs [0-9.]+[TPE]B of memory, ' err || fail "$(cat err)"
"$KVSHIFT" train --layers 4096 --dim 32768 --heads 256 --vocab 64 --pool 32 --overcommit --out new \
    >out 2>err && fail "more than all memory was allocated"
! grep -q 'are free' err || fail "--overcommit has no effect: $(cat err)"
"$KVSHIFT" convert --random desk-1m --positions alibi --context 16777216 --layers 1024 --dim 64 \
    --heads 1 --kv-heads 1 --vocab 32 --no-mlp long-context --quiet
refused 1 "are free; see --kv-cache" score -m long-context --ids 1 --continuation-ids 2
refused 1 "are free; see --new-tokens and --kv-cache" generate -m long-context --ids 1 -n 99999999
"$KVSHIFT" generate -m long-context --ids 1 -n 1 >/dev/null ||
    fail "a short text with a long context fails"

# ---- resume: without options, with the same options, with options that may change ----

full=(--data corpus "${small[@]}" --steps 30 --lr 2e-3 --shift gate --dropout 0.1 --seed 3)
"$KVSHIFT" train "${full[@]}" --out once --quiet >/dev/null
"$KVSHIFT" train "${full[@]}" --steps 12 --checkpoint-every 4 --out twice --quiet >/dev/null
[[ $(sed -n 's/^eval-every = \([0-9]*\).*/\1/p' twice/config.resolved.toml) == 1 ]] ||
    fail "$(grep eval-every twice/config.resolved.toml)"
refused 1 "'twice' already holds a run ('train.jsonl'); --resume continues it" \
    train "${full[@]}" --out twice
refused 2 "option '--lr' is 0.001, but the run in 'twice' has 0.002" \
    train --resume --out twice --lr 0.001
refused 2 "option '--shift-form' is clamp, but the run in 'twice' has gate" \
    train --resume --out twice --shift clamp
refused 2 "option '--dim' is 64, but the run in 'twice' has 32" train --resume --out twice --dim 64
refused 2 "option '--sliding-window' is 4, but the run in 'twice' has 0" \
    train --resume --out twice --sliding-window 4
refused 2 "option '--init-from' is run, but the run in 'twice' has none" \
    train --resume --out twice --init-from run
KVSHIFT_LR=0.5 refused 2 "option '--lr' is 0.5, but the run in 'twice' has 0.002" \
    train --resume --out twice
"$KVSHIFT" train --resume --out twice --steps 20 --threads 1 >out 2>err || fail "$(cat err)"
grep -q '^resumed after step 12 of twice' err || fail "$(cat err)"
"$KVSHIFT" train "${full[@]}" --resume --out twice --quiet >/dev/null 2>err || fail "$(cat err)"
cmp once/model.safetensors twice/model.safetensors || fail "a resumed run has different weights"
grep -q '^threads = 1 ' twice/config.resolved.toml || fail "threads were not kept"
[[ $(wc -l <twice/command.txt) == 3 ]] || fail "$(cat twice/command.txt)"
"$KVSHIFT" train --config once/config.resolved.toml --resume auto --out fresh --quiet >/dev/null
"$KVSHIFT" train --resume auto --out fresh 2>err >out &&
    fail "a run without a checkpoint is resumed"

# The command that started a run resumes it, with options from a file and from the command line.
printf 'task = "ngram"\nmodel = "desk-1m"\n[training]\nbatch = 8\nsteps = 2\n' >run.toml
again=(train --config run.toml --data corpus "${small[@]}" --accumulate 2 --shift smear --kv-heads 2
    --checkpoint-every 1 --resume auto --out same --quiet)
"$KVSHIFT" "${again[@]}" >/dev/null
rm -r same/ckpt/step-00000002
cp same/model.safetensors first
"$KVSHIFT" "${again[@]}" >/dev/null 2>err || fail "the same command again: $(cat err)"
cmp first same/model.safetensors || fail "the same command again: different weights"
"$KVSHIFT" train --init-from once --data corpus --batch 4 --steps 2 --checkpoint-every 1 --dim 32 \
    --out started --quiet >/dev/null
refused 2 "option '--dim' is 64, but the model in 'once' has 32" train --resume --out started --dim 64
"$KVSHIFT" train --resume --dim 32 --out started --steps 3 --quiet >/dev/null 2>err ||
    fail "resumed after --init-from: $(cat err)"

# If the folder has no settings, those of the checkpoint are compared, before its tensors.
cp -r twice bare-twice
rm bare-twice/config.resolved.toml
refused 2 "model setting '" train "${full[@]}" --dim 64 --resume --out bare-twice
grep -q "is 64, but 'bare-twice/ckpt/step-00000030' was trained with 32" err || fail "$(cat err)"

# ---- during a run there is no final model ----

"$KVSHIFT" train "${full[@]}" --steps 8 --checkpoint-every 4 --out long --quiet >/dev/null
cp long/model.safetensors eight.safetensors
"$KVSHIFT" train --resume --steps 100000000 --out long --quiet >/dev/null 2>&1 &
pid=$!
for ((i = 0; i < 200; i++)); do
    [[ $(wc -l <long/train.jsonl) -gt 10 ]] && break
    sleep 0.05
done
[[ ! -e long/model.safetensors && ! -e long/result.json ]] || fail "a stale model while it runs"
kill -KILL "$pid"
wait "$pid" 2>/dev/null || true
[[ -s long/config.json ]] || fail "config.json was removed"
for command in "generate -p x" "ppl text.txt" "score --context x --continuation y"; do
    # shellcheck disable=SC2086
    refused 1 "'long' is a run that has not finished and has no model yet; its newest checkpoint is 'long/ckpt/latest'" \
        ${command%% *} -m long ${command#* }
done
refused 1 "'long/ckpt/latest'" train --init-from long --data corpus --out new
refused 1 "'long/ckpt/latest'" inspect long
refused 1 "'long/ckpt/latest'" convert long new
"$KVSHIFT" generate -m long/ckpt/latest -p 'the cat' -n 3 >out || fail "the hint does not work"

# If only the final model holds some weights, they are kept under another name.
"$KVSHIFT" train "${full[@]}" --steps 8 --checkpoint-every 4 --out damaged --quiet >/dev/null
truncate -s -1 damaged/ckpt/step-00000008/model.safetensors
"$KVSHIFT" train --resume --out damaged --quiet >/dev/null 2>err || fail "$(cat err)"
cmp damaged/model.before-resume.safetensors eight.safetensors || fail "weights are lost"
cmp damaged/model.safetensors eight.safetensors ||
    fail "resumed from an older checkpoint: different weights"
[[ ! -e long/model.before-resume.safetensors ]] ||
    fail "a model that has a checkpoint is kept twice"

# ---- token files of llm.c and nanoGPT ----

ids() { # COUNT: 16-bit ids below 50
    awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "%c%c", 1 + (i * i + i / 7) % 49, 0 }'
}
ids 4000 >train.bin
[[ $(stat -c %s train.bin) == 8000 ]] || fail "awk cannot write bytes: $(stat -c %s train.bin)"
head -c 1000 train.bin >valid.bin
bin=(--data train.bin --vocab 50 "${small[@]}" --steps 3 --quiet)
"$KVSHIFT" train "${bin[@]}" --out tail >out
head -1 tail/train.jsonl | grep -q '"train_tokens":3800,.*"valid_tokens":200,' ||
    fail "$(head -1 tail/train.jsonl)"
"$KVSHIFT" train "${bin[@]}" --valid-data valid.bin --out two-files >out
head -1 two-files/train.jsonl | grep -q '"train_tokens":4000,.*"valid_tokens":500,' ||
    fail "$(head -1 two-files/train.jsonl)"
[[ ! -e tail/tokenizer.json ]] || fail "a tokenizer without a source"
"$KVSHIFT" generate -m tail --ids 1,2 -n 3 >out
grep -q '"ids": \[' out || fail "$(cat out)"
"$KVSHIFT" ppl -m tail --data train.bin --quiet >out
grep -q '^measured    199 tokens' out || fail "$(cat out)"
"$KVSHIFT" train --init-from tail --data train.bin --steps 1 --batch 4 --quiet >out ||
    fail "the vocabulary of the model is not used"
refused 2 "for a .bin of llm.c or nanoGPT give its vocabulary size with --vocab" train --data train.bin --out new
refused 2 "'text.txt' is a text file: name its tokenizer with '--tokenizer' (-t), or build a corpus" \
    train --data text.txt --vocab 65536 --out new
refused 1 "has id 49" train --data train.bin --vocab 40 --out new
refused 2 "option '--valid-data' needs '--data'" train --valid-data valid.bin --out new
refused 2 "has its own validation split" train --data corpus --valid-data valid.bin --out new
head -c 20 train.bin >tiny.bin
refused 2 "cannot be held out" train --data tiny.bin --vocab 50 --out new

# ---- a benchmark's random weights do not replace a model ----

cp run/model.safetensors before
refused 2 "'run' holds a model that --save did not write" bench train --model tiny --save run
cmp run/model.safetensors before || fail "a benchmark overwrote a model"
echo "passed"
