#!/usr/bin/env bash
# script/grade-math without the package that it needs: it says so, in one line.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
script=$here/../../script/grade-math

refused() { # TEXT ARGUMENT...
    local code=0
    python3 "$script" "${@:2}" >out 2>err || code=$?
    [[ $code != 0 && $(wc -l <err) == 1 && ! -s out ]] || fail "'${*:2}' exits $code: $(cat err)"
    grep -qF -- "$1" err || fail "'${*:2}' prints: $(cat err)"
}
python3 "$script" --help >help
grep -q '^usage: script/grade-math' help || fail "--help"
mkdir empty
refused "no samples_minerva_math*.jsonl in 'empty'" empty
mkdir lm_eval # a package without the module
touch lm_eval/__init__.py
echo '{}' >samples_minerva_math_algebra.jsonl
PYTHONPATH=$PWD refused "needs the Python package lm-eval[math]==0.4.13" .

# A package that grades as told: means, errors, what has changed, and samples with both metrics.
mkdir -p lm_eval/tasks/minerva_math lm_eval-0.4.13.dist-info
touch lm_eval/tasks/__init__.py lm_eval/tasks/minerva_math/__init__.py
printf 'Metadata-Version: 2.1\nName: lm_eval\nVersion: 0.4.13\n' >lm_eval-0.4.13.dist-info/METADATA
cat >lm_eval/tasks/minerva_math/utils.py <<'END'
def last_boxed_only_string(solution): return solution
def remove_boxed(text):
    assert text.startswith("boxed ")
    return text[6:]
def normalize_final_answer(text): return text
def process_results(doc, results):
    return {"exact_match": int(doc["answer"] == results[0]), "math_verify": 1}
END
n=0
for row in 'a a 1' 'b b 0' 'c d 0' 'e f 0'; do
    read -r text answer stored <<<"$row"
    echo "{\"doc_id\": $((n++)), \"doc\": {\"solution\": \"boxed $answer\"}, \"resps\": [[\"$text\"]], \"exact_match\": $stored}"
done >samples_minerva_math_algebra.jsonl
export PYTHONPATH=$PWD
python3 "$script" --out graded . >out
grep -q '4 documents, exact_match 50.00 ± 28.87 %, math_verify 100.00 ± 0.00 %' out || fail "$(cat out)"
grep -q 'settled by algebra: 1, documents 1$' out || fail "$(cat out)"
[[ $(grep -c '"math_verify": 1' graded/samples_minerva_math_algebra.jsonl) == 4 ]] || fail "$(cat graded/*)"
refused "is the folder of" --out . samples_minerva_math_algebra.jsonl
echo '{"doc": 1}' >bad.jsonl
refused "'bad.jsonl', line 1: expected a sample" bad.jsonl
echo '{"doc_id": 7, "doc": {"solution": "x"}, "resps": [["5"]]}' >bad.jsonl
refused "document 7: the solution has no" bad.jsonl
refused "cannot read 'nowhere'" nowhere
echo "passed"
