#!/usr/bin/env bash
# Small runs: output, files and resume.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# value FILE KEY: the value of a key in a JSON file with one key per line.
value() {
    sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"
}

small=(--dim 32 --heads 2 --vocab 64 --pool 32 --max-length 32 --batch 8 --eval-sequences 64)

# A run with its folder.
"$KVSHIFT" train "${small[@]}" --steps 40 --eval-every 20 --out "runs/it's one" >out 2>err
for file in train.jsonl result.json config.json model.safetensors modeling_kvshift.py; do
    [[ -s "runs/it's one/$file" ]] || fail "no $file"
done
[[ $(find runs -type f | wc -l) == 10 ]] || fail "not ten files: $(find runs -type f)"
[[ $(wc -l <"runs/it's one/train.csv") == 41 ]] || fail "train.csv has not 1 + 40 lines"
grep -q '^step,loss,lr,accuracy,' "runs/it's one/train.csv" || fail "train.csv has no head"
grep -Eq '^20(,[^,]*){6}(,[0-9.]+){2}(,-?[0-9.]+){4},,$' "runs/it's one/train.csv" ||
    fail "train.csv lacks the evaluation or the shift of step 20"
[[ $(wc -l <"runs/it's one/train.jsonl") == 41 ]] || fail "train.jsonl has not 1 + 40 lines"
grep -q '^accuracy .* on 64 fresh sequences' out || fail "no accuracy: $(cat out)"
cp out first
grep -q "^files .*runs/it's one" out || fail "no files: $(cat out)"
lines=$(grep -c '^step .*tokens/s' err)
((lines >= 15 && lines <= 25)) || fail "$lines lines of progress"
grep -q '^step 40/40 ' err || fail "the last step is not shown"
grep -q '^step 20: evaluation ' err || fail "no evaluation is shown"
! grep -q $'[\r\x1b]' err || fail "control characters outside a terminal"
head -1 "runs/it's one/train.jsonl" | grep -qF "'runs/it'\\\\''s one'" ||
    fail "the command is not quoted: $(head -1 "runs/it's one/train.jsonl")"

# The name of a folder may be invalid UTF-8; JSON has U+FFFD for such bytes.
"$KVSHIFT" train "${small[@]}" --steps 1 --quiet --json --out $'caf\xe9' >out ||
    fail "a folder that is not UTF-8"
grep -q "\"out\": \"caf$(printf '\xef\xbf\xbd')\"" out || fail "its name: $(cat out)"
"$KVSHIFT" train --resume --quiet --steps 2 --out $'caf\xe9' 2>err &&
    fail "resume without a checkpoint succeeds"
grep -q 'has no complete checkpoint' err || fail "resume: $(cat err)"

# The same run with --json prints only JSON, with the same values.
"$KVSHIFT" train "${small[@]}" --steps 40 --eval-every 20 --threads 1 --out none --quiet --json \
    >again.json 2>err
[[ ! -s err ]] || fail "--quiet prints: $(cat err)"
for key in steps final_accuracy final_loss step_at_99 seconds tokens tokens_per_s parameters seed \
    threads cpu_level out task accuracy_by_length; do
    grep -q "\"$key\": " again.json || fail "--json lacks '$key'"
done
[[ $(value again.json steps) == 40 ]] || fail "steps: $(value again.json steps)"
[[ $(value again.json out) == null ]] || fail "out: $(value again.json out)"
[[ $(value again.json final_loss) == "$(value "runs/it's one/result.json" final_loss)" ]] ||
    fail "two equal runs give different losses"
"$KVSHIFT" train "${small[@]}" --steps 40 --seed 2 --out none --quiet --json >other.json
[[ $(value again.json final_loss) != "$(value other.json final_loss)" ]] ||
    fail "another seed gives the same loss"

# A run that was killed before its first log record is started again.
mkdir stillborn
: >stillborn/train.jsonl
"$KVSHIFT" train "${small[@]}" --steps 3 --resume auto --out stillborn --quiet >/dev/null 2>err ||
    fail "$(cat err)"
[[ $(wc -l <stillborn/train.jsonl) == 4 ]] || fail "its log has not 1 + 3 lines"

# Training from a model with a learning rate of 0 leaves it unchanged.
"$KVSHIFT" train --init-from "runs/it's one" --pool 32 --max-length 32 --batch 8 --steps 1 --lr 0 \
    --weight-decay 0 --eval-sequences 64 --quiet --json --out two >two.json
[[ $(value two.json final_loss) == "$(value "runs/it's one/result.json" final_loss)" ]] ||
    fail "loaded: $(value two.json final_loss), saved: $(cat "runs/it's one/result.json")"
cmp -s two/model.safetensors "runs/it's one/model.safetensors" || fail "the weights changed"

# Model options may be repeated, not contradicted.
"$KVSHIFT" train --init-from two "${small[@]}" --shift kv --steps 1 --quiet >out
code=0
"$KVSHIFT" train --init-from two --dim 64 --out three >out 2>err || code=$?
[[ $code == 2 && ! -e three ]] || fail "contradiction exits $code"
grep -qx "kvshift: option '--dim' is 64, but the model in 'two' has 32" err || fail "$(cat err)"
code=0
"$KVSHIFT" train --init-from two --shift none --out three >out 2>err || code=$?
[[ $code == 2 ]] || fail "another shift exits $code"
grep -q "option '--shift' is none, but the model in 'two' has kv" err || fail "$(cat err)"
code=0
"$KVSHIFT" train --init-from two --shift clamp --out three >out 2>err || code=$?
[[ $code == 2 ]] || fail "a short name for another form exits $code"
grep -q "option '--shift-form' is clamp, but the model in 'two' has free" err || fail "$(cat err)"

# Accuracy by length: short and long sequences are counted separately, and every one is counted.
grep -q '^by length 3-17: ' first || fail "no lengths: $(cat first)"
scored=$(sed -n 's/^ *"scored": \([0-9]*\),$/\1/p' again.json | paste -sd+)
[[ $((scored)) == 64 ]] || fail "of 64 sequences $scored are counted by length"

# Model families: config.json holds the settings, and training continues from it.  The same options
# are accepted then, also in another order and by other names.
goes_on() { # NAME OPTION...
    local name=$1
    shift
    "$KVSHIFT" train --dim 32 --vocab 32 --pool 16 --max-length 16 --batch 8 --eval-sequences 16 \
        --quiet --json --steps 2 --out "family/$name" "$@" >first.json || fail "$name: no run"
    "$KVSHIFT" train --pool 16 --max-length 16 --batch 8 --eval-sequences 16 --quiet --json \
        --steps 1 --lr 0 --weight-decay 0 --init-from "family/$name" "$@" >second.json ||
        fail "$name cannot be trained further"
    [[ $(value first.json final_loss) == "$(value second.json final_loss)" ]] ||
        fail "$name: saved $(value first.json final_loss), loaded $(value second.json final_loss)"
}
goes_on gpt2 --positions learned --body gpt2 --shift none --tied
grep -q '"model_type": "gpt2"' family/gpt2/config.json || fail "no plain GPT-2"
goes_on gpt2-rope --positions rope --body gpt2 --shift gate --kv-heads 2 --dropout 0.1
goes_on channel --shift qkv --shift-form channel --shift-window 3 --shift-init softmax
goes_on data --shift-form data --head normalised
goes_on hard --shift-form hard --rotary-fraction 0.5 --head none
goes_on sliding --layers 3 --sliding-window 4 --sliding-layers 2,0 --sliding-heads 2
goes_on theory --positions alibi --slopes 2 --score-scale 1 --no-residual --no-mlp --no-norm \
    --identity-projections --unit-embeddings --tied --only-shift
goes_on ours --dropout 0.5 --dropout-attention 0 --decay-all
grep -q '"dropout_attention"' family/ours/config.json && fail "a default value is written"
grep -q '"dropout_residual": 0.5' family/ours/config.json || fail "$(cat family/ours/config.json)"

# Memorising triples: the ceiling is printed, and a model that sees both tokens exceeds it.
"$KVSHIFT" train --task ngram --alphabet 6 --pairs 20 --answers 10 --dim 32 --batch 20 --steps 150 \
    --lr 3e-3 --eval-sequences 20 --quiet --out triples >out
grep -q '^accuracy .* on 20 sequences' out || fail "ngram prints: $(cat out)"
grep -q '^ceiling .* sees only x2$' out || fail "ngram prints: $(cat out)"
"$KVSHIFT" train --task ngram --alphabet 6 --pairs 20 --answers 10 --init-from triples --batch 20 \
    --lr 0 --steps 1 --eval-sequences 20 --quiet --json >out
awk -v reached="$(value out final_accuracy)" -v ceiling="$(value out x2_only_ceiling)" \
    'BEGIN { exit !(reached > 0.99 && ceiling > 0.2 && ceiling < 0.9) }' || fail "ngram: $(cat out)"
grep -q '"vocab_size": 16' triples/config.json || fail "$(cat triples/config.json)"

# Adding an identity shift to an ordinary model keeps the loss to the last digit; then it trains.
"$KVSHIFT" train "${small[@]}" --shift none --steps 5 --out plain --quiet --json >plain.json
task=(--pool 16 --max-length 20 --batch 8)
"$KVSHIFT" train --init-from plain --retrofit kv "${task[@]}" --steps 1 --lr 0 --eval-sequences 64 \
    --out shifted --quiet --json >shifted.json
"$KVSHIFT" train --init-from plain "${task[@]}" --steps 1 --lr 0 --eval-sequences 64 --quiet --json \
    >again.json
[[ $(value shifted.json final_loss) == "$(value again.json final_loss)" ]] ||
    fail "retrofitting changes the loss: $(cat shifted.json again.json)"
"$KVSHIFT" train --init-from shifted "${task[@]}" --steps 20 --out learned --quiet >/dev/null
"$KVSHIFT" inspect shifted --json >out
grep -q '"alpha_sum": 1.0,' out || fail "a retrofitted shift is not the identity: $(cat out)"
"$KVSHIFT" inspect learned --json >out
grep -q '"alpha_sum": [01]\.[0-9]' out || fail "no coefficients: $(cat out)"
grep -q '"\(alpha\|beta\)_sum": 1.0,' out && fail "the shift did not learn: $(cat out)"
grep -q '"init": "identity"' learned/config.json || fail "$(cat learned/config.json)"
cmp -s shifted/model.safetensors learned/model.safetensors &&
    fail "a retrofitted model does not change in training"

# Plans of the presets, also of those too large for this machine; no memory is allocated.  A step
# has as many tokens as in the paper.
while read -r name parameters tokens; do
    "$KVSHIFT" train --model "$name" --dry-run >out
    grep -q "^parameters *$parameters$" out || fail "the plan of $name: $(cat out)"
    grep -q "^step *$tokens tokens" out || fail "the plan of $name: $(cat out)"
    grep -q '^planned for *text in windows of ' out || fail "the plan of $name: $(cat out)"
done <<'END'
paper-1.5b 1.56G 1.05M
paper-2.9b 2.89G 16.8M
paper-6.7b 6.77G 1.05M
paper-13b 13.1G 2.10M
paper-19b 19.0G 2.95M
kvlm 25.1M 16.4k
desk-1m 1.07M 4096
desk-3m 3.34M 8192
desk-10m 10.1M 16.4k
desk-30m 33.7M 32.8k
desk-110m 110M 65.5k
END
"$KVSHIFT" train --model desk-1m --task induction --vocab 1024 --dry-run >out
grep -q 'planned for' out && fail "a plan for a task mentions text"

# An interrupted and resumed run equals an uninterrupted one.
"$KVSHIFT" train "${small[@]}" --steps 8 --out once --quiet >/dev/null
"$KVSHIFT" train "${small[@]}" --steps 5 --out twice --checkpoint-every 5 --quiet >/dev/null
"$KVSHIFT" train "${small[@]}" --steps 8 --out twice --resume --quiet >/dev/null
cmp once/model.safetensors twice/model.safetensors || fail "a resumed run has different weights"

# The best checkpoint by evaluation loss is kept beside the newest.
"$KVSHIFT" train "${small[@]}" --steps 30 --lr 3e-3 --eval-every 2 --checkpoint-every 10 --keep 1 \
    --out best --quiet >/dev/null
lowest=$(sed -n 's/.*"step":\([0-9]*\).*"eval_loss":\([0-9.]*\).*/\2 \1/p' best/train.jsonl | sort -g | head -1)
[[ $(readlink best/ckpt/best) == "$(printf 'step-%08d' "${lowest#* }")" ]] ||
    fail "best is $(readlink best/ckpt/best), the lowest loss and its step are $lowest"
[[ $(readlink best/ckpt/latest) == step-00000030 ]] || fail "latest is $(readlink best/ckpt/latest)"

# An environment variable replaces an option.
KVSHIFT_STEPS=3 KVSHIFT_QUIET=yes "$KVSHIFT" train "${small[@]}" --json >env.json
[[ $(value env.json steps) == 3 ]] || fail "KVSHIFT_STEPS has no effect"

# A signal ends the run cleanly.
"$KVSHIFT" train "${small[@]}" --steps 100000000 --out stopped >out 2>err &
pid=$!
for ((i = 0; i < 200; i++)); do
    [[ -e stopped/train.jsonl && $(wc -l <stopped/train.jsonl) -gt 2 ]] && break
    sleep 0.05
done
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[[ $code == 143 ]] || fail "SIGTERM gives exit code $code"
[[ -s stopped/model.safetensors && -s stopped/result.json ]] || fail "a stopped run is not saved"
[[ -s stopped/ckpt/latest/DONE ]] || fail "a stopped run has no checkpoint"
grep -q '^stopped by SIGTERM after step' err || fail "$(cat err)"

# A time limit also ends it cleanly, with a checkpoint to resume from.
"$KVSHIFT" train "${small[@]}" --steps 100000000 --max-time 0.01 --out limited >out 2>err
grep -q '^stopped after 0.01 minutes (--max-time), after step' err || fail "$(cat err)"
steps=$(value limited/result.json steps)
"$KVSHIFT" train "${small[@]}" --steps $((steps + 1)) --max-time 10 --resume --out limited >out 2>err
grep -q "^resumed after step $steps of limited" err || fail "after --max-time: $(cat err)"
! grep -q '^stopped' err || fail "a finished run prints: $(cat err)"

# Separate learning rate and decay for the shift; a resumed run keeps them.
"$KVSHIFT" train "${small[@]}" --steps 3 --shift-lr 0.01 --shift-decay 0.5 --checkpoint-every 3 \
    --quiet --out rates >/dev/null
code=0
"$KVSHIFT" train "${small[@]}" --steps 5 --shift-lr 0.02 --resume --quiet --out rates >out 2>err ||
    code=$?
[[ $code == 2 ]] || fail "another rate for the shift exits $code"
grep -q "option '--shift-lr' is 0.02, but the run in 'rates' has 0.01" err || fail "$(cat err)"
"$KVSHIFT" train "${small[@]}" --steps 5 --shift-decay 0.5 --resume --quiet --out rates >/dev/null
head -1 rates/train.jsonl | grep -q '"shift_lr":0.01,' || fail "$(head -1 rates/train.jsonl)"

# The precision is recorded, changes the weights, and a resumed run keeps it.
"$KVSHIFT" train "${small[@]}" --steps 8 --precision bf16 --out bf16 --quiet >/dev/null
! cmp -s once/model.safetensors bf16/model.safetensors || fail "bf16 has the weights of f32"
head -1 bf16/train.jsonl | grep -q '"precision":"bf16"' || fail "$(head -1 bf16/train.jsonl)"
grep -q '^precision = "bf16"' bf16/config.resolved.toml || fail "$(cat bf16/config.resolved.toml)"
"$KVSHIFT" train "${small[@]}" --steps 5 --precision bf16 --out halves --checkpoint-every 5 --quiet \
    >/dev/null
code=0
"$KVSHIFT" train "${small[@]}" --steps 8 --precision f32 --resume --quiet --out halves >out 2>err ||
    code=$?
[[ $code == 2 ]] || fail "another precision exits $code"
[[ $(cat err) == "kvshift: option '--precision' is f32, but the run in 'halves' has bf16" ]] ||
    fail "$(cat err)"
"$KVSHIFT" train "${small[@]}" --steps 8 --resume --quiet --out halves >/dev/null
cmp bf16/model.safetensors halves/model.safetensors || fail "a resumed bf16 run has different weights"
code=0
"$KVSHIFT" train "${small[@]}" --precision f16 >out 2>err || code=$?
[[ $code == 2 && $(cat err) == "kvshift: option '--precision': expected f32 or bf16, found 'f16'" ]] ||
    fail "an unknown precision exits $code: $(cat err)"

# Divergence: the error names the step, the first bad value and the checkpoint to return to.
for precision in f32 bf16; do
    code=0
    "$KVSHIFT" train "${small[@]}" --layers 2 --steps 100 --lr 300 --warmup 0 --clip 0 \
        --precision $precision --checkpoint-every 1 --keep 1 --quiet --out "diverged-$precision" \
        >out 2>err || code=$?
    [[ $code == 1 ]] || fail "a run that diverges exits $code: $(cat err)"
    grep -Eq '^kvshift: step [0-9]+ diverged: loss .*, gradient norm .*, first in .*rate \(now 300\)' \
        err || fail "a run that diverges prints: $(cat err)"
    [[ ! -e diverged-$precision/model.safetensors ]] || fail "a run that diverged leaves a model"
done

# Reports.
"$KVSHIFT" report "runs/it's one" stopped --json report.json >out
grep -q "^it's one  *kv " out || fail "report prints: $(cat out)"
grep -q '"name": "stopped"' report.json || fail "report.json lacks a run"
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" report "runs/it's one" --title 'A & B' --html page.html --svg curves.svg >out
    grep -q '<h1>A &amp; B</h1>' page.html || fail "the page has no heading"
    grep -q '</svg>' curves.svg || fail "no curves"
    for part in 'learning rate' 'gradient norm' 'α of keys' 'β of values' '>layer<' 'Processor: '; do
        grep -q "$part" page.html || fail "the page has no '$part'"
    done
    grep -Eq 'parameters; seed 1; 20[0-9-]+' curves.svg || fail "the curves have no title"
fi
"$KVSHIFT" report runs >folder
"$KVSHIFT" report runs/* >each
cmp folder each || fail "a folder of runs is not its runs: $(cat folder)"
[[ -z $(find . -name '*.tmp-*') ]] || fail "temporary files are left"
echo "passed"
