#!/usr/bin/env bash
# script/repro-night at scale smoke: groups, records, the time limit; and the plan of claims.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/eval.bash"

source=$here/../..
export KVSHIFT
night() { # OPTION...
    KVSHIFT_SHARED='' bash "$source/script/repro-night" --scale smoke --out out --records records \
        --results results "$@"
}

# ---- two groups, from runs and then from records ----

night --hours 1 --only small --only retrofit >log 2>err || fail "$(cat log err)"
for name in induction-width hop-k ngram bad-start retrofit; do
    [[ -s results/$name/results.json && -d records/$name-smoke/runs ]] || fail "no $name: $(cat log)"
    grep -q "finished   $name after" out/night.log || fail "no line on $name: $(cat out/night.log)"
done
[[ ! -e results/sites ]] || fail "a group that was not asked for"
grep -q '^  on:    CPU level .*, precision f32$' out/night.log || fail "$(cat out/night.log)"
grep -q '^| ngram | smoke | f32 |' results/README.md || fail "$(cat results/README.md)"
[[ -s results/power.md ]] || fail "no table of power"
# The second half of a retrofit has a base; a run that continues another is of no use elsewhere.
for run in out/runs/retrofit/runs/vanilla-then-kv-shifting-seed-*; do
    grep -q '"continues": "vanilla-first-half-seed-' "$run/planned.json" || fail "$run has no base"
done
cp -r results before
rm -rf out results
night --hours 1 --only small >log 2>err || fail "$(cat log err)"
for name in induction-width hop-k ngram bad-start; do
    cmp "before/$name/results.json" "results/$name/results.json" || fail "$name differs from records"
    python3 -c 'import json, sys
e = json.load(open(sys.argv[1])); assert e["taken"] == e["runs"] > 0, e' "results/$name/experiment.json" ||
        fail "$name has runs that were made again"
done
[[ $(grep -c 'is taken over from' out/night.log) -ge 20 ]] || fail "$(cat out/night.log)"

# ---- the time limit, and what is refused ----

rm -rf out results records
night --hours 0.0021 --only tokens --only sites >log 2>err || fail "$(cat log err)"
grep -q 'ends       ' out/night.log || fail "$(cat out/night.log)"
refused() { # WORDS OPTION...
    local code=0 words=$1
    shift
    night "$@" >log 2>err || code=$?
    [[ $code == 2 ]] || fail "$*: exit code $code"
    grep -qF -- "$words" err || fail "$*: '$(cat err)'"
}
refused "expected --hours N, found 'nothing'"
refused "expected --hours N, found 'soon'" --hours soon
refused "unknown group 'smal'" --hours 1 --only smal
refused "unknown argument '--huors'" --huors 1

# ---- benchmarks ----

make_data 4
"$KVSHIFT" repro benchmarks --data data --out benchmarks >log 2>err || fail "$(cat log err)"
grep -q '"name": "lambada_openai, words of the context: loss"' \
    benchmarks/runs/vanilla-seed-1/measured.json || fail "$(cat benchmarks/runs/vanilla-seed-1/measured.json)"
grep -q 'arc_easy: acc' benchmarks/scores.csv || fail "$(cat benchmarks/scores.csv)"
grep -q 'in-context learning score' benchmarks/scores.csv || fail "$(cat benchmarks/scores.csv)"
# The same documents can be compared one by one.
steps=step-00000009
"$KVSHIFT" eval compare "benchmarks/runs/vanilla-seed-1/eval/$steps/lambada" \
    "benchmarks/runs/kv-shifting-seed-1/eval/$steps/lambada" >log 2>err || fail "$(cat err)"
code=0
"$KVSHIFT" repro seeds --data data --out none --quiet 2>err || code=$?
[[ $code == 2 ]] || fail "data for an experiment without benchmarks: $code"
grep -q "the experiment 'seeds' scores no benchmarks" err || fail "$(cat err)"

# ---- the plan of claims is that of the code ----

"$KVSHIFT" repro list --json >list.json
python3 - "$source/docs/reproduction/plan.json" list.json before benchmarks <<'END' || fail "the plan differs from the code"
import json, os, re, sys
plan, listed = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
nights = {e['name']: e['scales']['night']['seeds'] for e in listed if 'night' in e['scales']}
assert set(nights) == {c['experiment'] for c in plan['claims']}, 'other experiments'
def form(claim):
    """Sizes differ between scales."""
    return re.sub(r'[\d.]+[KM]?|width \d+', '#', claim.split(': ')[-1])
for claim in plan['claims']:
    name = claim['experiment']
    assert claim['seeds'] == nights[name], (name, claim['seeds'], nights[name])
    path = sys.argv[3] + '/' + name + '/results.json'
    if name == 'benchmarks':
        path = sys.argv[4] + '/results.json'
    if not os.path.exists(path):
        continue
    found = {form(c['claim']): c for c in json.load(open(path))}
    assert form(claim['claim']) in found, claim['claim']
    margin = found[form(claim['claim'])]['margin']
    assert margin is None or margin == claim['margin'], (claim['claim'], margin)
END
