#!/usr/bin/env bash
# Benchmarks: table, JSON, result files, and one clear line for each kind of bad input.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/eval.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
make_model 32 1
make_data 12

# The table marks parts; the JSON has the same numbers.
tasks=arc_easy,lambada_openai,winogrande,mmlu,hendrycks_math_algebra
"$KVSHIFT" eval -m model --tasks $tasks --data data --num-fewshot 0 --threads 1 --json >one.json
"$KVSHIFT" eval -m model --tasks $tasks --data data --num-fewshot 0 --threads 2 >table
grep -q '^arc_easy  *0  *acc  .*%.*±.*part, 12 of 2376$' table || fail "$(cat table)"
grep -q '^mmlu  *0  *acc  .*part, 24 of 14042$' table || fail "$(cat table)"
grep -q '^lambada_openai  *0  *perplexity  ' table || fail "$(cat table)"
python3 - <<'END' || fail "$(cat one.json table)"
import json, math
o = json.load(open('one.json'))
r = o['results']
assert set(r) >= {'arc_easy', 'lambada_openai', 'winogrande', 'mmlu', 'mmlu_stem', 'mmlu_anatomy', 'mmlu_astronomy', 'hendrycks_math_algebra'}
assert r['arc_easy']['sample_len'] == 12 and 'acc_norm,none' in r['arc_easy']
n = [12, 12]
m = [r['mmlu_anatomy']['acc,none'], r['mmlu_astronomy']['acc,none']]
assert abs(r['mmlu']['acc,none'] - sum(m) / 2) < 1e-15 and o['groups']['mmlu'] == r['mmlu']
assert o['n-samples']['arc_easy'] == {'original': 12, 'effective': 12} and o['n-shot']['arc_easy'] == 0
k = o['kvshift']
assert k['tasks']['arc_easy']['partial'] and k['tokens_fed'] < k['tokens']
row = [l.split() for l in open('table') if l.startswith('arc_easy')][0]
assert row[3] == '%.2f' % (100 * r['arc_easy']['acc,none'])
END

# The paper's three forms of MMLU.
"$KVSHIFT" eval -m model --tasks paper-mmlu --data data --limit 3 --out paper --quiet >table
grep -q '^cloze  *0  *acc ' table && grep -q '^zero-shot  *0  *acc ' table && grep -q '^few-shot  *5  *acc ' table || fail "$(cat table)"
[[ $(ls -d paper/model/*/results_*.json | wc -l) == 3 ]] || fail "$(ls -R paper)"

# Result files: the harness's names and format; few-shot prompts; the second run is the same.
for out in one two; do
    "$KVSHIFT" eval -m model --tasks arc_easy,winogrande --data data --num-fewshot 2 --limit 5 --bos never \
        --max-length 100 --threads $((${#out} - 2)) --out $out --quiet >table
done
same_results one two
python3 - <<'END' || fail "$(ls -R one)"
import glob, hashlib, json
[path] = glob.glob('one/model/samples_arc_easy_*.jsonl')
lines = [json.loads(l) for l in open(path)]
assert [l['doc_id'] for l in lines] == list(range(5))
l = lines[0]
assert list(l)[:11] == ['doc_id', 'doc', 'target', 'arguments', 'resps', 'filtered_resps', 'filter', 'metrics', 'doc_hash', 'prompt_hash', 'target_hash']
context = l['arguments']['gen_args_0']['arg_0']
assert context.count('Question:') == 3 and hashlib.sha256(context.encode()).hexdigest() == l['prompt_hash']
assert l['doc_hash'] == hashlib.sha256(json.dumps(l['doc'], indent=2, ensure_ascii=False).encode()).hexdigest()
assert l['resps'] == [[r] for r in l['filtered_resps']] and l['filtered_resps'][0][1] in ('True', 'False')
sums = [float(r[0]) for r in l['filtered_resps']]
assert l['acc'] == float(sums.index(max(sums)) == int(l['target']))
[path] = glob.glob('one/model/results_*.json')
assert json.load(open(path))['config']['limit'] == 5
END
[[ ! -e one/model/journal.jsonl ]] || fail "the journal is still there"

# One line for each mistake, and nothing is written.
refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    "$KVSHIFT" eval "$@" --out refused >out 2>err && fail "accepted: $*"
    grep -qF -- "$text" err || fail "$*: $(cat err)"
    [[ $(wc -l <err) == 1 ]] || fail "more than one line: $(cat err)"
    [[ ! -e refused ]] || fail "$*: something was written"
}
refused "'--tasks' is required" -m model --data data
refused "'--data' is required" -m model --tasks arc_easy
refused "arc_easy" -m model --tasks arc_eazy --data data
refused "max_length is 400, the model's context is 320" -m model --tasks arc_easy --data data --max-length 400
refused "'--limit'" -m model --tasks arc_easy --data data --limit -3
"$KVSHIFT" eval -m model --tasks arc_easy --data data --resume 2>err && fail "resume without a folder"
grep -q "'--resume' needs '--out'" err || fail "$(cat err)"

# Documents that cannot be scored are named with their file and line.
cp -r data bad
sed -i '3s/a mat/'"$(printf 'mat %.0s' $(seq 400))"'/' bad/arc/ARC-Easy-Test.jsonl
refused "ARC-Easy-Test.jsonl', line 3: document 2: the continuation has " -m model --tasks arc_easy --data bad
cp data/arc/ARC-Easy-Test.jsonl bad/arc/ARC-Easy-Test.jsonl
sed -i '4s/"a mat"/""/' bad/arc/ARC-Easy-Test.jsonl
refused "ARC-Easy-Test.jsonl' line 4: choice 2 of 3 is empty" -m model --tasks arc_easy --data bad
refused "expected more than the 256" -m model --tasks hendrycks_math --data data --max-length 256
