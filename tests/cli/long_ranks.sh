#!/usr/bin/env bash
# Several ranks under mpirun train the same model as one process, with every --shard, bit for bit if
# requested; they resume from checkpoints of other rank counts, and report errors in one line.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/mpirun.bash"

# value FILE KEY: the value of a key in a JSON file with one key per line.
value() {
    sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1"
}

small=(--dim 32 --heads 2 --layers 2 --vocab 64 --pool 32 --max-length 32 --batch 24
    --eval-sequences 65 --steps 40 --eval-every 20 --lr 3e-3 --quiet)

# column FILE NUMBER: a column of train.csv without its head.
column() { sed 1d "$1" | cut -d, -f"$2"; }

# Losses of all 40 steps within 1e-4, and the final one within 0.5 %.
expect_alike() { # FOLDER
    paste <(column one/train.csv 2) <(column "$1/train.csv" 2) |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-4 * $1)) bad = 1; n++ }
             END { exit bad || n != 40 }' || fail "$1: losses differ from those of one process"
    awk -v a="$(value one/result.json final_loss)" -v b="$(value "$1/result.json" final_loss)" \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(b > 0 && d <= 0.005 * a) }' ||
        fail "$1: the final loss differs from that of one process"
}

"$KVSHIFT" train "${small[@]}" --out one >out
for count in 1 2 3 4; do
    ranks "$count" "$KVSHIFT" train "${small[@]}" --out "none$count" >out
    [[ $(grep -c '^accuracy' out) == 1 ]] || fail "not exactly one rank prints: $(cat out)"
    expect_alike "none$count"
    head -1 "none$count/train.jsonl" |
        grep -q "\"ranks\":$count,\"sequences_per_rank\":$((24 / count))," ||
        fail "the first record: $(head -1 "none$count/train.jsonl")"
done
for shard in optimizer gradients parameters; do
    for count in 2 3; do
        ranks "$count" "$KVSHIFT" train "${small[@]}" --shard $shard --accumulate 4 \
            --out "$shard$count" >out
        expect_alike "$shard$count"
    done
done

# Bit for bit, also if the number of ranks changes: 1 rank without a stop, and 4 ranks then 2.
exact=("${small[@]}" --deterministic --checkpoint-every 20)
"$KVSHIFT" train "${exact[@]}" --out exact1 >out
for count in 2 4; do
    ranks "$count" "$KVSHIFT" train "${exact[@]}" --out "exact$count" >out
    cmp exact1/model.safetensors "exact$count/model.safetensors" ||
        fail "$count ranks: different bits"
    cmp <(column exact1/train.csv 1-5) <(column "exact$count/train.csv" 1-5) ||
        fail "$count ranks: different values in the log"
done
ranks 4 "$KVSHIFT" train "${exact[@]}" --steps 20 --shard parameters --out resumed >out
ranks 2 "$KVSHIFT" train "${exact[@]}" --shard gradients --resume --out resumed >out
cmp exact1/model.safetensors resumed/model.safetensors || fail "resumed: different bits"
cmp exact1/ckpt/latest/optimizer.safetensors resumed/ckpt/latest/optimizer.safetensors ||
    fail "resumed: different moments"
"$KVSHIFT" inspect --check resumed/ckpt/latest >out || fail "the checkpoint: $(cat out)"

# The same in bf16.
"$KVSHIFT" train "${exact[@]}" --precision bf16 --out bf1 >out
ranks 4 "$KVSHIFT" train "${exact[@]}" --precision bf16 --steps 20 --shard parameters --out bf4 >out
ranks 2 "$KVSHIFT" train "${exact[@]}" --precision bf16 --shard gradients --resume --out bf4 >out
cmp bf1/model.safetensors bf4/model.safetensors || fail "bf16, resumed: different bits"
! cmp -s bf1/model.safetensors exact1/model.safetensors || fail "bf16 has the weights of f32"

# Saved by 4 ranks, resumed by 1 and by 3.
for count in 1 3; do
    rm -rf moved
    ranks 4 "$KVSHIFT" train "${small[@]}" --steps 20 --checkpoint-every 20 --shard optimizer \
        --out moved >out
    ranks "$count" "$KVSHIFT" train "${small[@]}" --checkpoint-every 20 --resume --out moved >out
    expect_alike moved
done

# Training from a model file, with and without sharding.
for shard in none parameters; do
    ranks 2 "$KVSHIFT" train --init-from one --pool 32 --max-length 32 --batch 8 --steps 1 --lr 0 \
        --weight-decay 0 --eval-sequences 65 --quiet --shard $shard --out "again-$shard" >out
    cmp one/model.safetensors "again-$shard/model.safetensors" ||
        fail "loaded $shard: different weights"
done
ranks 2 "$KVSHIFT" train --init-from one --pool 32 --max-length 32 --batch 8 --steps 1 --lr 0 \
    --weight-decay 0 --eval-sequences 65 --quiet --json >out
[[ $(value out final_loss) == "$(value one/result.json final_loss)" ]] ||
    awk -v a="$(value out final_loss)" -v b="$(value one/result.json final_loss)" \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6 * b) }' || fail "$(cat out)"

# The plan lists every rank.
ranks 2 "$KVSHIFT" train "${small[@]}" --shard optimizer --dry-run >out
grep -q '^ranks  *2, 12 sequences per step each$' out || fail "dry run: $(cat out)"
[[ $(grep -c '^  rank [01] .* thread' out) == 2 ]] || fail "no rank map: $(cat out)"
grep -q '^sent per rank and step, shard optimizer$' out || fail "no bytes: $(cat out)"

# The profile contains the waiting times of ranks.
ranks 2 "$KVSHIFT" train "${small[@]}" --profile --json >out
for key in step_seconds transfer_seconds waiting_seconds overlapped peak_bytes planned_bytes; do
    grep -q "\"$key\": [0-9]" out || fail "no $key in the profile: $(cat out)"
done

# Errors of all ranks or of one rank are one line.
run=("$KVSHIFT" train "${small[@]}")
refused 2 "batch is 24, expected a multiple of the 5 ranks" -np 5 "${run[@]}"
refused 2 "deterministic runs have 1, 2 or 4 ranks, here are 3" -np 3 "${run[@]}" --deterministic
refused 2 "unknown option '--lrr'" -np 2 "${run[@]}" --lrr 1
refused 2 "rank 1: train lr is 0.002 here, 0.003 on rank 0" \
    -np 1 "${run[@]}" : -np 1 "${run[@]}" --lr 2e-3
refused 2 "rank 1: train precision is \"bf16\" here, \"f32\" on rank 0" \
    -np 1 "${run[@]}" : -np 1 "${run[@]}" --precision bf16
refused 2 "rank 1: run shard is \"optimizer\" here, \"none\" on rank 0" \
    -np 1 "${run[@]}" : -np 1 "${run[@]}" --shard optimizer
refused 1 "rank 0: 'one' already holds a run" -np 2 "${run[@]}" --out one
refused 1 "rank 1: cannot open 'nowhere" -np 1 "${run[@]}" : -np 1 "${run[@]}" --init-from nowhere

# Ranks with different corpora.
for name in a b; do
    for _ in {1..200}; do echo "the same words in text $name over and over"; done >$name.txt
    "$KVSHIFT" data build $name.txt --out $name --tokenizer bytes --valid 0.2 >out 2>&1
done
text=("$KVSHIFT" train --dim 32 --heads 2 --context 16 --batch 4 --steps 2 --quiet)
ranks 2 "${text[@]}" --data a >out
refused 2 "rank 1: data checksum is \"[0-9a-f]*\" here, \"[0-9a-f]*\" on rank 0" \
    -np 1 "${text[@]}" --data a : -np 1 "${text[@]}" --data b

# Without the MPI plugin the command refuses to run under mpirun, and runs as a single process.
mkdir alone
cp "$KVSHIFT" alone/kvshift
if alone/kvshift version | grep -q 'MPI no'; then
    refused 1 "started as one of 2 processes, but this kvshift has no MPI; install " \
        -np 2 alone/kvshift train "${small[@]}"
    alone/kvshift train "${small[@]}" --steps 1 >out || fail "alone: $(cat out)"
else
    echo "an installed kvshift has MPI here: refusing without it is not tested"
fi
