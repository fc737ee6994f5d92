#!/usr/bin/env bash
# kvshift repro: output files, resume after a kill, and errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

refused() { # CODE WORDS OPTION...: fails with the code and one line that contains the words
    local code=0 wanted=$1 words=$2
    shift 2
    "$KVSHIFT" repro "$@" --quiet >out 2>err || code=$?
    [[ $code == "$wanted" ]] || fail "repro $*: exit code $code instead of $wanted: $(cat err)"
    grep -qF -- "$words" err || fail "repro $*: '$(cat err)' instead of '$words'"
    [[ $(wc -l <err) == 1 ]] || fail "repro $*: not one line: $(cat err)"
}

smoke=(induction-depth --scale smoke)

# ---- output and files ----

"$KVSHIFT" repro "${smoke[@]}" --out whole --seeds 3 >out 2>err || fail "$(cat err)"
grep -q '^  plan:  12 of 12 runs to do, .*FLOP, about ' err || fail "no plan: $(cat err)"
grep -q '^12 of 12  vanilla-4-layers-seed-3: loss ' err || fail "no progress: $(cat err)"
grep -q '^results whole/results.json$' out || fail "$(cat out)"
[[ $(wc -l <whole/runs.csv) == 13 ]] || fail "runs.csv: $(cat whole/runs.csv)"
grep -q '^  *"seeds": 3,$' whole/results.json || fail "$(cat whole/results.json)"
"$KVSHIFT" repro "${smoke[@]}" --out whole --seeds 3 --resume --json >again.json 2>err
grep -q '^  plan:  0 of 12 runs to do' err || fail "done runs are done again: $(cat err)"
grep -q '"results": \[' again.json || fail "$(cat again.json)"

# The folder of a run is an ordinary run folder.
"$KVSHIFT" report whole/runs/kv-shifting-1-layer-seed-1 >out || fail "not an ordinary run folder"

# More seeds add runs.
cp -r whole more
"$KVSHIFT" repro "${smoke[@]}" --out more --seeds 4 --resume >out 2>err
grep -q '^  plan:  4 of 16 runs to do' err || fail "$(cat err)"

# ---- runs of other experiments ----

# Equal runs are reused; runs with another number of steps and unfinished runs are not.
mkdir shared
"$KVSHIFT" repro seeds --seeds 2 --out shared/seeds --quiet >out
"$KVSHIFT" repro qkv --seeds 2 --out alone --quiet >out
"$KVSHIFT" repro qkv --seeds 2 --out shared/qkv --reuse shared >out 2>err || fail "$(cat err)"
[[ $(grep -c "is taken over from 'shared/seeds/runs/" err) == 4 ]] || fail "taken over: $(cat err)"
[[ $(grep -c '^[56] of 6  qkv-shifting' err) == 2 ]] ||
    fail "not exactly the remaining runs: $(cat err)"
cmp alone/results.json shared/qkv/results.json || fail "different results with reused runs"
for damage in 'rm result.json' 'truncate -s 200 train.jsonl' 'sed -i s/warmup/w/ planned.json'; do
    rm -rf shared/qkv shared/again
    cp -r shared/seeds shared/again
    for run in shared/seeds/runs/*; do (cd "$run" && eval "$damage"); done
    mv shared/again other
    "$KVSHIFT" repro qkv --seeds 2 --out shared/qkv --reuse shared >out 2>err || fail "$(cat err)"
    ! grep -q 'taken over' err || fail "$damage: $(cat err)"
    cmp alone/results.json shared/qkv/results.json || fail "$damage: different results"
    rm -rf shared/seeds
    mv other shared/seeds
done

# ---- killed and resumed ----

# At least two more runs remain at every kill.
for last in kv-shifting-1-layer-seed-2 vanilla-2-layers-seed-1 vanilla-4-layers-seed-1; do
    "$KVSHIFT" repro "${smoke[@]}" --out killed --seeds 3 --resume --quiet >/dev/null 2>&1 &
    pid=$!
    until [[ -e killed/runs/$last/train.jsonl ]]; do kill -0 "$pid" || fail "it ended by itself"; done
    kill -9 "$pid" || fail "the kill came too late"
    wait "$pid" 2>/dev/null || true
    [[ ! -e killed/results.json ]] || fail "results before all runs are done"
done
"$KVSHIFT" repro "${smoke[@]}" --out killed --seeds 3 --resume --quiet >/dev/null 2>err || fail "$(cat err)"
cmp whole/results.json killed/results.json || fail "different results after kills"
cmp whole/accuracy.csv killed/accuracy.csv || fail "a different figure after kills"

# SIGTERM ends the experiment cleanly.
"$KVSHIFT" repro "${smoke[@]}" --out stopped --seeds 3 >out 2>err &
pid=$!
until [[ -e stopped/runs/vanilla-1-layer-seed-1/train.jsonl ]]; do kill -0 "$pid"; done
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[[ $code == 143 ]] || fail "exit code $code after SIGTERM: $(cat err)"
grep -q '^stopped; --resume continues from there$' err || fail "$(cat err)"
"$KVSHIFT" repro "${smoke[@]}" --out stopped --seeds 3 --resume --quiet >/dev/null
cmp whole/results.json stopped/results.json || fail "different results after a stop"

# The checkpoint of such a stop is not measured, because other runs have none.
"$KVSHIFT" repro induction-width --scale smoke --out width --quiet >/dev/null
run=width/runs/kv-shifting-1-layer-width-8-seed-1
mv "$run/measured.json" measured.json
cp -r "$run/ckpt/step-00000016" "$run/ckpt/step-00000005"
"$KVSHIFT" repro induction-width --scale smoke --out width --resume --quiet >/dev/null
cmp measured.json "$run/measured.json" || fail "an additional checkpoint was measured"

# ---- errors ----

refused 2 "unknown experiment 'inducton-depth'; did you mean 'induction-depth'?" inducton-depth
refused 2 "unknown experiment 'xyz'" xyz
refused 2 "smoke, desk or paper" seeds --scale huge
refused 2 "the models of 'seeds' learn a text at scale 'desk'" seeds --scale desk --out none
[[ ! -e none ]] || fail "a folder was created without a text"
refused 1 "already holds this experiment" "${smoke[@]}" --out whole
refused 2 "is for experiment 'induction-depth', expected 'ngram'" ngram --out whole --resume
refused 2 "is for scale 'smoke', expected 'desk'" induction-depth --scale desk --out whole --resume
mkdir mine && touch mine/thesis.tex
refused 1 "the folder 'mine' is not empty ('thesis.tex')" "${smoke[@]}" --out mine
refused 1 "No such file or directory" seeds --text nothing.txt --out none2
mkdir empty
refused 1 "has no text" seeds --text empty --out none3
code=0
"$KVSHIFT" repro report empty 2>err || code=$?
[[ $code == 1 ]] || fail "a report of an empty folder: $code"
grep -q "has no finished experiment" err || fail "$(cat err)"

# ---- damaged folders ----

cp -r whole damaged
run=damaged/runs/vanilla-2-layers-seed-2
head -c 300 whole/runs/vanilla-2-layers-seed-2/train.jsonl >"$run/train.jsonl"
refused 1 "$run/train.jsonl" "${smoke[@]}" --out damaged --seeds 3 --resume
rm -r "$run"
"$KVSHIFT" repro "${smoke[@]}" --out damaged --seeds 3 --resume --quiet >/dev/null
cmp whole/results.json damaged/results.json || fail "different results of a repeated run"
echo '{' >damaged/results.json
code=0
"$KVSHIFT" repro report damaged >out 2>err || code=$?
[[ $code == 1 ]] || fail "a damaged record is reported"
grep -q "results.json': malformed JSON" err || fail "$(cat err)"
sed -i 's/"lr": [^,]*/"lr": 0.5/' "$run/planned.json"
refused 2 "was made with other settings" "${smoke[@]}" --out damaged --seeds 3 --resume
echo 'no JSON' >damaged/plan.json
refused 1 "plan.json': malformed JSON" "${smoke[@]}" --out damaged --seeds 3 --resume

# ---- the user's text and corpus ----

mkdir texts
for i in $(seq 400); do echo "line $((i % 17)): the cat sat on mat $((i * i % 13))."; done >texts/a.txt
cp texts/a.txt texts/b.txt
"$KVSHIFT" repro qkv --text texts --out own --quiet >/dev/null
[[ -s own/text/tokenizer.json && -s own/text/data/corpus.json ]] || fail "no corpus"
"$KVSHIFT" repro qkv --text own/text/data --out corpus --quiet >/dev/null
cmp own/results.json corpus/results.json || fail "the corpus gives different results than its texts"
as_zst texts/a.txt >a.txt.zst
printf '{"text": "%s\\n"}\n' "$(sed -z 's/\n$//; s/\n/\\n/g' texts/b.txt)" >b.jsonl
"$KVSHIFT" repro qkv --text a.txt.zst --text b.jsonl --out other-form --quiet >/dev/null
for file in tokenizer.json data/train-00000.shard; do
    cmp "own/text/$file" "other-form/text/$file" || fail "compressed texts and JSON lines: $file"
done
echo more >>texts/b.txt
refused 2 "is for other texts" qkv --text texts --out own --resume

# ---- plans ----

"$KVSHIFT" repro lm-loss --scale paper --dry-run >out
grep -q '^vanilla-19b-seed-1 .* 19.0G parameters, 67.8k steps, 200G tokens' out || fail "$(cat out)"
[[ ! -e repro ]] || fail "a plan creates a folder"
"$KVSHIFT" repro "${smoke[@]}" --out whole --seeds 3 --resume --dry-run >out
grep -q '^kv-shifting-1-layer-seed-1 .*, done$' out || fail "$(cat out)"
