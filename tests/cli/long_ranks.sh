#!/usr/bin/env bash
# Several ranks under mpirun: they train what one does, with every --shard; to the bit
# where that is asked for; go on from each other's checkpoints; and refuse in one line what cannot be.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/mpirun.bash"

# value FILE KEY: the number or word behind a key of a JSON file with one key a line.
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
             END { exit bad || n != 40 }' || fail "$1: other losses than one process has"
    awk -v a="$(value one/result.json final_loss)" -v b="$(value "$1/result.json" final_loss)" \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(b > 0 && d <= 0.005 * a) }' ||
        fail "$1: another final loss than one process has"
}

"$KVSHIFT" train "${small[@]}" --out one >out
for count in 1 2 3 4; do
    ranks "$count" "$KVSHIFT" train "${small[@]}" --out "none$count" >out
    [[ $(grep -c '^accuracy' out) == 1 ]] || fail "not one rank speaks: $(cat out)"
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

# Bit for bit, and from one number of ranks to the other: on 1 rank without a stop, on 4 and then 2.
exact=("${small[@]}" --deterministic --checkpoint-every 20)
"$KVSHIFT" train "${exact[@]}" --out exact1 >out
for count in 2 4; do
    ranks "$count" "$KVSHIFT" train "${exact[@]}" --out "exact$count" >out
    cmp exact1/model.safetensors "exact$count/model.safetensors" || fail "$count ranks: other bits"
    cmp <(column exact1/train.csv 1-5) <(column "exact$count/train.csv" 1-5) ||
        fail "$count ranks: other numbers on the way"
done
ranks 4 "$KVSHIFT" train "${exact[@]}" --steps 20 --shard parameters --out resumed >out
ranks 2 "$KVSHIFT" train "${exact[@]}" --shard gradients --resume --out resumed >out
cmp exact1/model.safetensors resumed/model.safetensors || fail "resumed: other bits"
cmp exact1/ckpt/latest/optimizer.safetensors resumed/ckpt/latest/optimizer.safetensors ||
    fail "resumed: other moments"
"$KVSHIFT" inspect --check resumed/ckpt/latest >out || fail "the checkpoint: $(cat out)"

# Saved on 4, gone on with on 1 and on 3.
for count in 1 3; do
    rm -rf moved
    ranks 4 "$KVSHIFT" train "${small[@]}" --steps 20 --checkpoint-every 20 --shard optimizer \
        --out moved >out
    ranks "$count" "$KVSHIFT" train "${small[@]}" --checkpoint-every 20 --resume --out moved >out
    expect_alike moved
done

# From a model in a file, whole or spread.
for shard in none parameters; do
    ranks 2 "$KVSHIFT" train --init-from one --pool 32 --max-length 32 --batch 8 --steps 1 --lr 0 \
        --weight-decay 0 --eval-sequences 65 --quiet --shard $shard --out "again-$shard" >out
    cmp one/model.safetensors "again-$shard/model.safetensors" || fail "loaded $shard: other weights"
done
ranks 2 "$KVSHIFT" train --init-from one --pool 32 --max-length 32 --batch 8 --steps 1 --lr 0 \
    --weight-decay 0 --eval-sequences 65 --quiet --json >out
[[ $(value out final_loss) == "$(value one/result.json final_loss)" ]] ||
    awk -v a="$(value out final_loss)" -v b="$(value one/result.json final_loss)" \
        'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6 * b) }' || fail "$(cat out)"

# What a run would take, of every rank.
ranks 2 "$KVSHIFT" train "${small[@]}" --shard optimizer --dry-run >out
grep -q '^ranks  *2, 12 sequences per step each$' out || fail "dry run: $(cat out)"
[[ $(grep -c '^  rank [01] .* thread' out) == 2 ]] || fail "no rank map: $(cat out)"
grep -q '^sent per rank and step, shard optimizer$' out || fail "no bytes: $(cat out)"

# What ranks waited for.
ranks 2 "$KVSHIFT" train "${small[@]}" --profile --json >out
for key in step_seconds transfer_seconds waiting_seconds overlapped peak_bytes planned_bytes; do
    grep -q "\"$key\": [0-9]" out || fail "no $key in the profile: $(cat out)"
done

# One line, whatever is wrong: with all ranks, or with one of them.
run=("$KVSHIFT" train "${small[@]}")
refused 2 "batch is 24, expected a multiple of the 5 ranks" -np 5 "${run[@]}"
refused 2 "deterministic runs have 1, 2 or 4 ranks, here are 3" -np 3 "${run[@]}" --deterministic
refused 2 "unknown option '--lrr'" -np 2 "${run[@]}" --lrr 1
refused 2 "rank 1: train lr is 0.002 here, 0.003 on rank 0" \
    -np 1 "${run[@]}" : -np 1 "${run[@]}" --lr 2e-3
refused 2 "rank 1: run shard is \"optimizer\" here, \"none\" on rank 0" \
    -np 1 "${run[@]}" : -np 1 "${run[@]}" --shard optimizer
refused 1 "rank 0: 'one' already holds a run" -np 2 "${run[@]}" --out one
refused 1 "rank 1: cannot open 'nowhere" -np 1 "${run[@]}" : -np 1 "${run[@]}" --init-from nowhere

# Texts that are not the same.
for name in a b; do
    for _ in {1..200}; do echo "the same words in text $name over and over"; done >$name.txt
    "$KVSHIFT" data build $name.txt --out $name --tokenizer bytes --valid 0.2 >out 2>&1
done
text=("$KVSHIFT" train --dim 32 --heads 2 --context 16 --batch 4 --steps 2 --quiet)
ranks 2 "${text[@]}" --data a >out
refused 2 "rank 1: data checksum is \"[0-9a-f]*\" here, \"[0-9a-f]*\" on rank 0" \
    -np 1 "${text[@]}" --data a : -np 1 "${text[@]}" --data b

# A command without its MPI refuses to train copies, and needs none where it is alone.
mkdir alone
cp "$KVSHIFT" alone/kvshift
if alone/kvshift version | grep -q 'MPI no'; then
    refused 1 "started as one of 2 processes, but this kvshift has no MPI; install " \
        -np 2 alone/kvshift train "${small[@]}"
    alone/kvshift train "${small[@]}" --steps 1 >out || fail "alone: $(cat out)"
else
    echo "an installed kvshift has MPI here: refusing without it is not tested"
fi
