#!/usr/bin/env bash
# Small runs: what they print, what they leave, and going on from there.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# value FILE KEY: the number or word behind a key of a JSON file with one key a line.
value() {
    sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"
}

small=(--dim 32 --heads 2 --vocab 64 --pool 32 --max-length 32 --batch 8 --eval-sequences 64)

# A run with its folder.
"$KVSHIFT" train "${small[@]}" --steps 40 --eval-every 20 --out "runs/it's one" >out 2>err
for file in train.jsonl result.json config.json model.safetensors; do
    [[ -s "runs/it's one/$file" ]] || fail "no $file"
done
[[ $(find runs -type f | wc -l) == 4 ]] || fail "more than four files: $(find runs -type f)"
[[ $(wc -l <"runs/it's one/train.jsonl") == 41 ]] || fail "train.jsonl has not 1 + 40 lines"
grep -q '^accuracy .* on 64 fresh sequences' out || fail "no accuracy: $(cat out)"
grep -q "^files .*runs/it's one" out || fail "no files: $(cat out)"
lines=$(grep -c '^step .*tokens/s' err)
((lines >= 15 && lines <= 25)) || fail "$lines lines of progress"
grep -q '^step 40/40 ' err || fail "the last step is not shown"
grep -q '^step 20: evaluation ' err || fail "no evaluation is shown"
! grep -q $'[\r\x1b]' err || fail "control characters outside a terminal"
head -1 "runs/it's one/train.jsonl" | grep -qF "'runs/it'\\\\''s one'" ||
    fail "the command is not quoted: $(head -1 "runs/it's one/train.jsonl")"

# The same run for programs, which says nothing else and gives the same numbers.
"$KVSHIFT" train "${small[@]}" --steps 40 --eval-every 20 --threads 1 --quiet --json \
    >again.json 2>err
[[ ! -s err ]] || fail "--quiet says: $(cat err)"
for key in steps final_accuracy final_loss step_at_99 seconds tokens tokens_per_s parameters seed \
    threads cpu_level out; do
    grep -q "\"$key\": " again.json || fail "--json lacks '$key'"
done
[[ $(value again.json steps) == 40 ]] || fail "steps: $(value again.json steps)"
[[ $(value again.json out) == null ]] || fail "out: $(value again.json out)"
[[ $(value again.json final_loss) == "$(value "runs/it's one/result.json" final_loss)" ]] ||
    fail "the same run twice gives two losses"
"$KVSHIFT" train "${small[@]}" --steps 40 --seed 2 --quiet --json >other.json
[[ $(value again.json final_loss) != "$(value other.json final_loss)" ]] ||
    fail "another seed gives the same loss"

# Going on: at a rate of 0 the loaded model is what it was.
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

# The environment stands in for an option.
KVSHIFT_STEPS=3 KVSHIFT_QUIET=yes "$KVSHIFT" train "${small[@]}" --json >env.json
[[ $(value env.json steps) == 3 ]] || fail "KVSHIFT_STEPS is not heard"

# A signal ends the run in order.
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
grep -q '^stopped by SIGTERM after step' err || fail "$(cat err)"

# Reports.
"$KVSHIFT" report "runs/it's one" stopped --json report.json >out
grep -q "^it's one  *kv " out || fail "report prints: $(cat out)"
grep -q '"name": "stopped"' report.json || fail "report.json lacks a run"
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" report "runs/it's one" --title 'A & B' --html page.html --svg curves.svg >out
    grep -q '<h1>A &amp; B</h1>' page.html || fail "the page has no heading"
    grep -q '</svg>' curves.svg || fail "no curves"
fi
[[ -z $(find . -name '*.tmp-*') ]] || fail "temporary files are left"
echo "passed"
