#!/usr/bin/env bash
# Several models and their table: kvshift eval -m runs/*/ckpt/* --table paper
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/eval.bash"
make_model 32 1
make_data 40
mkdir -p data/hellaswag data/cmmlu/test data/cmmlu/dev
for i in $(seq 12); do
    echo "{\"activity_label\": \"Cat $i\", \"ctx_a\": \"the cat sat.\", \"ctx_b\": \"the dog\", \"endings\": [\"sat $i\", \"ran\", \"the mat\", \"no\"], \"label\": \"$((i % 4))\"}"
done >data/hellaswag/hellaswag_val.jsonl
cp data/arc/ARC-Easy-Test.jsonl data/arc/ARC-Challenge-Test.jsonl
cp data/arc/ARC-Easy-Dev.jsonl data/arc/ARC-Challenge-Dev.jsonl
{
    echo ",Question,A,B,C,D,Answer"
    for i in $(seq 12); do echo "$i,cat $i,a,b,c,d,A"; done
} >data/cmmlu/test/anatomy.csv
head -n 6 data/cmmlu/test/anatomy.csv >data/cmmlu/dev/anatomy.csv
for shift in none kv; do
    "$KVSHIFT" train --data corpus --shift $shift --dim 32 --heads 4 --layers 1 --context 320 --batch 2 \
        --steps 6 --checkpoint-every 3 --eval-every 6 --lr 4e-3 --out runs/$shift --quiet >/dev/null
done

# Checkpoints of two runs: links to the same checkpoint make no row of their own.
"$KVSHIFT" eval -m runs/*/ckpt/* --data data --limit 6 --table paper >table 2>err
[[ $(grep -c '^runs/[a-z]*/ckpt/step-0000000[36] ' table) == 4 ]] || fail "$(cat table err)"
if grep -q 'ckpt/latest\|ckpt/best' table; then fail "a link has a row: $(cat table)"; fi
head -n 1 table | grep -q '^model  *tokens  *LAMBADA  *WinoGrande  *HellaSwag  *ARC-E  *ARC-C  *CMMLU  *MMLU  *MATH  *mean$' || fail "$(cat table)"
[[ $(awk 'NR > 1 && NR < 6 { print $2 }' table | sort -u | wc -l) == 2 ]] || fail "tokens: $(cat table)"
[[ $(grep -c '^| runs/' results/table-paper.md) == 4 ]] || fail "$(cat results/table-paper.md)"
[[ $(grep -c '^runs/' results/table-paper.csv) == 4 ]] || fail "$(cat results/table-paper.csv)"
[[ ! -s results/table-paper.svg ]] || grep -q 'WinoGrande' results/table-paper.svg || fail "the picture"
command -v gnuplot >/dev/null && [[ ! -s results/table-paper.svg ]] && fail "no picture"

# --resume scores only the models whose results are not there, and gives the same table.
cp table before
find results -name 'results_*' | sort >files
rm -r results/runs__kv__ckpt__step-00000003
"$KVSHIFT" eval -m runs/*/ckpt/* --data data --limit 6 --table paper --resume --quiet >table
cmp before table || fail "--resume gives another table"
find results -name 'results_*' | sort >after
[[ $(comm -13 files after | wc -l) == 2 && $(comm -23 files after | wc -l) == 2 ]] || fail "$(diff files after)"
"$KVSHIFT" eval -m runs/*/ckpt/* --data data --limit 6 --table paper --resume --quiet --json >table.json
find results -name 'results_*' | sort | cmp - after || fail "complete results were made again"
grep -q '"label": *"runs/kv/ckpt/step-00000006"' table.json || fail "$(cat table.json)"
# Other documents are another evaluation.
"$KVSHIFT" eval -m runs/kv --data data --limit 5 --table mmlu --out other --quiet >table
grep -q '^kv .* ' table && [[ -s other/table-mmlu.md ]] || fail "$(cat table)"
"$KVSHIFT" eval -m runs/kv --data data --limit 4 --table mmlu --out other --resume --quiet >table
tr '\n' ' ' <table | grep -q 'zero-shot acc of mmlu, 0 shots, 8 documents' || fail "$(cat table)"

# Without --table, one result after the other.
"$KVSHIFT" eval -m runs/none runs/kv --data data --tasks arc_easy --quiet >table
[[ $(grep -c '^arc_easy ' table) == 2 && $(grep -c '^runs/' table) == 2 ]] || fail "$(cat table)"

refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    if "$KVSHIFT" eval "$@" >out 2>err; then fail "accepted: $*"; fi
    [[ $(wc -l <err) == 1 ]] && grep -qF -- "$text" err || fail "$*: $(cat err)"
}
refused "'--json' takes one model" -m runs/kv runs/none --tasks arc_easy --data data --json
refused "'runs/kv': models are named with --model" runs/kv --tasks arc_easy --data data
refused "nowhere" -m runs/kv nowhere --tasks arc_easy --data data --quiet
refused "--data" -m runs/kv --table paper
echo "passed"
