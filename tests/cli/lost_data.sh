#!/usr/bin/env bash
# The trained model is kept if another file cannot be written; values that overflow are refused.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

small=(--layers 1 --dim 16 --heads 2 --vocab 32 --pool 8 --max-length 16 --batch 8
    --eval-sequences 8 --quiet)

# refused CODE WORDS COMMAND...: fails with the code and one line that contains the words.
refused() {
    local code=$1 words=$2 found=0
    shift 2
    "$KVSHIFT" "$@" >out 2>err || found=$?
    [[ $found == "$code" ]] || fail "'$*' exits with $found: $(cat out err)"
    [[ $(wc -l <err) == 1 ]] || fail "'$*' prints more than one line: $(cat err)"
    grep -qF "$words" err || fail "'$*' prints: $(cat err)"
    ! grep -qi nan out || fail "'$*' prints: $(cat out)"
}

# If the table cannot be written, the model is still saved.
mkdir -p table/train.csv
refused 1 "cannot write 'table/train.csv'" train "${small[@]}" --steps 5 --out table
"$KVSHIFT" inspect --check table >/dev/null || fail "the model without its table is incomplete"
"$KVSHIFT" train "${small[@]}" --steps 5 --out whole >/dev/null
cmp table/model.safetensors whole/model.safetensors || fail "the model differs"
[[ -s table/result.json ]] || fail "no result without its table"

# Resume requires a log that is a regular file with lines that fit into memory.
"$KVSHIFT" train "${small[@]}" --steps 2 --checkpoint-every 1 --out log >/dev/null
mv log/train.jsonl kept
ln -s /dev/zero log/train.jsonl
refused 1 "cannot open 'log/train.jsonl': not a regular file" \
    train "${small[@]}" --steps 3 --checkpoint-every 1 --resume --out log
rm log/train.jsonl
cp kept log/train.jsonl
truncate -s 300M log/train.jsonl # NULs, without a newline
refused 1 "'log/train.jsonl' has a line of more than" \
    train "${small[@]}" --steps 3 --checkpoint-every 1 --resume --out log
mv kept log/train.jsonl
"$KVSHIFT" train "${small[@]}" --steps 3 --checkpoint-every 1 --resume --out log >/dev/null ||
    fail "the run cannot be resumed"

# Values of options.
largest=18446744073709551615
refused 2 "eval sequences is $largest, expected 1 to" train --layers 1 --dim 16 --heads 2 \
    --vocab 32 --pool 8 --max-length 16 --batch 8 --steps 1 --eval-sequences $largest
refused 2 "hop-k hops is '4096', but a string of length 1 allows at most 0" train --task hopk \
    --string 1 --hops 4096 --layers 1 --dim 16 --heads 2 --steps 1
refused 2 "hop-k hops is '4', but a string of length 5 allows at most 3" train --task hopk \
    --string 5 --hops 4 --layers 1 --dim 16 --heads 2 --steps 1
for id in $largest 18446744073709551614 31; do
    refused 2 "first id is '$id', expected at most" analyze whole --first-id "$id"
done
for hops in $largest 18446744073709551614 9223372036854775809; do
    refused 2 "option '--only-hops': expected at most 2^53, found $hops" train --task hopk \
        --only-hops "$hops" --layers 1 --dim 16 --heads 2 --steps 1
done
"$KVSHIFT" analyze whole --first-id 30 >/dev/null || fail "the largest first id is refused"
"$KVSHIFT" train "${small[@]}" --steps 3 --checkpoint-every 1 --keep $largest --out keep \
    >/dev/null
[[ $(find keep/ckpt -mindepth 1 -maxdepth 1 -name 'step-*' | wc -l) == 3 ]] ||
    fail "not all checkpoints are kept"
echo "passed"
