#!/usr/bin/env bash
# Benchmarks during training: they change nothing, continue after a resume, and are in reports.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/eval.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
make_model 32 1
make_data 40
small=(--data corpus --shift kv --dim 32 --heads 4 --layers 2 --context 320 --batch 2 --steps 60 --lr 4e-3
    --dropout 0.1 --checkpoint-every 10)
tasks=(--eval-tasks arc_easy:20,mmlu_continuation:30,lambada_openai --eval-data data --eval-tasks-every 15)

# The weights are the same to the bit, and so is the log.
"$KVSHIFT" train "${small[@]}" --out plain --quiet >/dev/null
"$KVSHIFT" train "${small[@]}" "${tasks[@]}" --out scored >/dev/null 2>err
cmp plain/model.safetensors scored/model.safetensors || fail "benchmarks change the training"
cmp plain/ckpt/latest/optimizer.safetensors scored/ckpt/latest/optimizer.safetensors || fail "benchmarks change the moments"
[[ $(grep -c '^step [0-9]*: arc_easy acc [0-9.]* ± [0-9.]* % of 20 documents$' err) == 4 ]] || fail "train prints: $(cat err)"
python3 - <<'END' || fail "$(cat scored/benchmarks.jsonl)"
import json
lines = [json.loads(l) for l in open('scored/benchmarks.jsonl')]
assert [l['step'] for l in lines] == [15, 30, 45, 60], lines
got = [(s['task'], s['metric'], s['documents']) for s in lines[0]['scores']]
assert got == [('arc_easy', 'acc', 20), ('arc_easy', 'acc_norm', 20), ('mmlu_continuation', 'acc', 30),
               ('lambada_openai', 'perplexity', 40), ('lambada_openai', 'acc', 40)], got
drop = lambda f: [{k: v for k, v in json.loads(l).items() if k != 'seconds'} for l in list(open(f))[1:]]
assert drop('plain/train.jsonl') == drop('scored/train.jsonl')
END

# The scores are those of 'kvshift eval' on the checkpoint.
"$KVSHIFT" eval -m scored --tasks arc_easy --data data --limit 20 --json --quiet >eval.json
python3 - <<'END' || fail "$(cat eval.json scored/benchmarks.jsonl)"
import json
r = json.load(open('eval.json'))['results']['arc_easy']
s = json.loads(list(open('scored/benchmarks.jsonl'))[-1])['scores'][0]
assert abs(s['value'] - r['acc,none']) < 1e-8 and abs(s['error'] - r['acc_stderr,none']) < 1e-8
END

# Killed, also while it scores, and resumed: the same weights and the same curve.
kills=0
for attempt in $(seq 40); do
    "$KVSHIFT" train "${small[@]}" "${tasks[@]}" --out killed --resume=auto --quiet >/dev/null 2>&1 &
    pid=$!
    sleep "0.$((RANDOM % 5))$((RANDOM % 10))"
    case $((attempt % 2)) in
    0) kill -9 $pid 2>/dev/null && kills=$((kills + 1)) ;;
    1) kill -TERM $pid 2>/dev/null && kills=$((kills + 1)) ;;
    esac || true
    wait $pid 2>/dev/null || true
    [[ ! -e killed/result.json ]] || [[ $(sed -n 's/.*"steps": *\([0-9]*\).*/\1/p' killed/result.json) != 60 ]] || break
done
"$KVSHIFT" train "${small[@]}" "${tasks[@]}" --out killed --resume=auto --quiet >/dev/null 2>&1 || true
echo "stopped $kills times"
cmp plain/model.safetensors killed/model.safetensors || fail "a killed run has other weights"
cmp scored/benchmarks.jsonl killed/benchmarks.jsonl || fail "the curve of a killed run: $(cat killed/benchmarks.jsonl)"

# A run whose scores of the last step are missing makes them when it is resumed.
sed -i '$d' killed/benchmarks.jsonl
"$KVSHIFT" train "${small[@]}" "${tasks[@]}" --out killed --resume --quiet >/dev/null
cmp scored/benchmarks.jsonl killed/benchmarks.jsonl || fail "the resumed curve: $(cat killed/benchmarks.jsonl)"

# Reports: a table, the picture, JSON.
"$KVSHIFT" report plain scored --json report.json >table
grep -q '^scored  *arc_easy  *acc  *20  *15  .* %  .* 60  .* ± .* %$' table || fail "$(cat table)"
grep -q '"task": "mmlu_continuation"' report.json || fail "$(cat report.json)"
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" report plain scored --html report.html --benchmarks-svg benchmarks.svg >/dev/null
    grep -q 'arc_easy, acc_norm' benchmarks.svg || fail "no panel of arc_easy"
    grep -q '<h2>Benchmarks</h2>' report.html || fail "no section of benchmarks"
fi

# Errors come before the first step, in one line.
refused() { # CODE TEXT ARGUMENT...
    local code=0
    "$KVSHIFT" train "${small[@]}" --out refused "${@:3}" >out 2>err </dev/null || code=$?
    [[ $code == "$1" && $(wc -l <err) == 1 ]] || fail "'${*:3}' exits $code: $(cat err)"
    grep -qF -- "$2" err || fail "'${*:3}' prints: $(cat err)"
    [[ ! -e refused ]] || fail "'${*:3}' makes a folder"
}
refused 2 "'--eval-data' is missing" --eval-tasks arc_easy --eval-tasks-every 2
refused 2 "'--eval-tasks-every' is missing" --eval-tasks arc_easy --eval-data data
refused 2 "'--eval-tasks' is missing" --eval-tasks-every 2
refused 2 "expected NAME:N with N from 1" --eval-tasks arc_easy:0 --eval-data data --eval-tasks-every 2
refused 2 "expected NAME:N with N from 1" --eval-tasks arc_easy:x --eval-data data --eval-tasks-every 2
refused 2 "expected each name once" --eval-tasks arc_easy,arc_easy:3 --eval-data data --eval-tasks-every 2
refused 2 "expected the tasks and groups" --eval-tasks paper --eval-data data --eval-tasks-every 2
refused 2 "expected names of tasks" --eval-tasks , --eval-data data --eval-tasks-every 2
refused 2 "arc_medium" --eval-tasks arc_medium --eval-data data --eval-tasks-every 2
refused 1 "nowhere" --eval-tasks arc_easy --eval-data nowhere --eval-tasks-every 2
code=0
"$KVSHIFT" train --task ngram --steps 2 "${tasks[@]}" >out 2>err || code=$?
[[ $code == 2 ]] && grep -q "'--eval-tasks' needs '--data'" err || fail "$(cat err)"
if "$KVSHIFT" report plain --benchmarks-svg none.svg >out 2>err; then fail "a picture of no scores"; fi
grep -q 'no scores on benchmarks' err || fail "$(cat err)"
echo "passed"
