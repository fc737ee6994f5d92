#!/usr/bin/env bash
# A small run of the comparison in examples/novels: it completes, resumes after a stop, and is fair.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
export KVSHIFT
compare=$(cd "$here/../.." && pwd)/examples/novels/compare

mkdir texts
for part in 1 2 3; do
    for i in $(seq 60); do
        echo "part $part, line $((i * part % 11)): the cat sat on the mat while it rained."
    done >"texts/part$part.txt"
done
small=(--vocab 300 --model desk-1m --context 32 --steps 4 --batch 2 --warmup 1 --eval-every 2)

"$compare" --text texts --out out --seeds 2 "${small[@]}" >log 2>&1 || fail "$(cat log)"
grep -q '^4 of 4: shift kv, seed 2$' log || fail "no progress: $(cat log)"
grep -q '^shift kv  *2 .* ± ' log || fail "no table: $(cat log)"
grep -q '"minus": "shift none"' out/results.json || fail "$(cat out/results.json)"
if command -v gnuplot >/dev/null; then
    grep -q '<h3>shift kv − shift none</h3>' out/report.html || fail "no differences in the page"
    grep -q '</svg>' out/curves.svg || fail "no curves"
fi

# Compressed files and JSON lines give the same corpus as the plain texts.
mkdir forms
as_zst texts/part1.txt >forms/part1.txt.zst
printf '{"text": "%s\\n"}\n' "$(sed -z 's/\n$//; s/\n/\\n/g' texts/part2.txt)" >forms/part2.jsonl
as_zst forms/part2.jsonl >forms/part2.jsonl.zst && rm forms/part2.jsonl
cp texts/part3.txt forms
"$compare" --text forms --out forms-out --seeds 1 "${small[@]}" >log 2>&1 || fail "$(cat log)"
for file in tokenizer.json runs/kv-1/model.safetensors; do
    cmp "out/$file" "forms-out/$file" ||
        fail "the same texts in other file formats give a different $file"
done

# Finished runs are skipped.  An interrupted run resumes and gives the same weights.
cp out/runs/kv-1/model.safetensors whole.safetensors
rm -r out/runs/kv-1
"$KVSHIFT" train --data out/data --model desk-1m --shift kv --context 32 --steps 4 --batch 2 --lr 2e-3 \
    --schedule cosine --warmup 1 --eval-every 2 --eval-sequences 3 --seed 1 --out other --quiet >/dev/null
"$compare" --text texts --out out --seeds 2 "${small[@]}" >log 2>&1 || fail "$(cat log)"
[[ $(grep -c ': done before$' log) == 3 ]] || fail "$(cat log)"
cmp out/runs/kv-1/model.safetensors whole.safetensors ||
    fail "kv-1 has different weights when repeated"
cmp out/runs/kv-1/model.safetensors other/model.safetensors ||
    fail "the script trains with different settings"

# The comparison is fair: with the same seed both models see the same batches and start from the
# same weights.  This is checked with an identity shift and a learning rate of 0: the losses of all
# batches must be equal to the last digit.  test_init.c compares the weights themselves.
losses() { sed -n 's/.*"loss":\([0-9.]*\),.*/\1/p' "$1/train.jsonl"; }
still() { # NAME SHIFT SEED
    "$KVSHIFT" train --data out/data --model desk-1m --context 32 --shift "$2" --shift-init identity \
        --steps 5 --batch 2 --lr 0 --weight-decay 0 --seed "$3" --eval-sequences 1 --out "still/$1" \
        --quiet >/dev/null
    losses "still/$1" >"still/$1.losses"
}
still none none 5
still kv kv 5
still other none 6
[[ $(sort -u still/none.losses | wc -l) == 5 ]] || fail "all batches are equal"
cmp still/none.losses still/kv.losses ||
    fail "the two models see different batches or start from different weights"
! cmp -s still/none.losses still/other.losses || fail "the seed changes nothing"

# Wrong arguments are reported in one line.
refused() { # CODE TEXT ARGUMENT...
    local code=0
    "$compare" "${@:3}" >log 2>err || code=$?
    [[ $code == "$1" && $(wc -l <err) == 1 ]] || fail "'${*:3}' exits $code: $(cat err)"
    grep -qF -- "$2" err || fail "'${*:3}' prints: $(cat err)"
}
refused 2 "'--text' is needed" --out x
refused 2 "'--out' is needed" --text texts
refused 2 "'--seeds' is '0'" --text texts --out x --seeds 0
refused 2 "unknown argument '--sed'" --text texts --out x --sed 3
refused 1 "cannot read 'nowhere'" --text nowhere --out x
refused 1 "made with 'lr 2e-3', now it is 'lr 1'" --text texts --out out "${small[@]}" --lr 1
KVSHIFT=/nowhere/kvshift refused 1 "script/build" --text texts --out x
echo "passed"
