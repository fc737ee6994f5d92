#!/usr/bin/env bash
# If a rank dies, the job ends in bounded time with a line that names it.  Its checkpoints are
# complete, and a loop that restarts it ends with the same bits as an undisturbed run.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/mpirun.bash"

run=("$KVSHIFT" train --dim 64 --heads 2 --layers 2 --vocab 64 --pool 32 --max-length 32 --batch 24
    --eval-sequences 24 --steps 400 --checkpoint-every 5 --deterministic --shard optimizer --quiet)

"${run[@]}" --out whole >out

# The process of one rank of the job in our folder.  kvshift re-executes itself once, so a process
# may disappear again.
find_rank() { # RANK
    local process
    for process in $(pgrep -f -- "--out $work/killed" || true); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null |
            grep -qx "OMPI_COMM_WORLD_RANK=$1"; then
            echo "$process"
            return
        fi
    done
}

steps() { if [[ -e killed/train.jsonl ]]; then wc -l <killed/train.jsonl; else echo 0; fi; }

# Kills one rank after some more steps and expects the job to end.
kill_one() { # RANK
    local rank=$1 before started victim code=0
    before=$(steps)
    ranks 4 "${run[@]}" --resume auto --out "$work/killed" >out 2>err &
    local job=$!
    started=$SECONDS
    while (($(steps) < before + 7)); do
        kill -0 $job 2>/dev/null || fail "the job ended by itself: $(cat err)"
        ((SECONDS - started < 200)) || fail "no steps in 200 s"
        sleep 0.05
    done
    victim=$(find_rank "$rank")
    [[ -n $victim ]] || fail "rank $rank is not there"
    kill -KILL "$victim"
    started=$SECONDS
    wait $job || code=$?
    ((SECONDS - started <= 60)) || fail "the job took $((SECONDS - started)) s to end"
    [[ $code != 0 ]] || fail "the job reports success"
    grep -Eq "rank $rank .*(signal 9|Killed)" err || fail "no line names rank $rank: $(cat err)"
    [[ -z $(find_rank 0)$(find_rank 1)$(find_rank 2)$(find_rank 3) ]] || fail "ranks are left"
    if [[ -e killed/ckpt/latest ]]; then
        "$KVSHIFT" inspect --check killed/ckpt/latest >out || fail "damaged: $(cat out)"
    fi
}

kill_one 2
kill_one 0

# The restart loop of docs/cluster.md.
for _ in 1 2 3; do
    ranks 4 "${run[@]}" --resume auto --out "$work/killed" >out 2>err && break
done
cmp whole/model.safetensors killed/model.safetensors || fail "different bits than without a kill"
[[ $(wc -l <killed/train.jsonl) == 401 ]] || fail "the log has $(wc -l <killed/train.jsonl) lines"

# A rank is stopped without an error: the others time out.
code=0
started=$SECONDS
rm -rf killed
ranks 2 "${run[@]}" --rank-timeout 0.1 --steps 100000 --out "$work/killed" >out 2>err &
job=$!
while (($(steps) < 7)); do
    ((SECONDS - started < 200)) || fail "no steps in 200 s"
    sleep 0.05
done
victim=$(find_rank 1)
[[ -n $victim ]] || fail "rank 1 is not there"
kill -STOP "$victim"
started=$SECONDS
while kill -0 $job 2>/dev/null && ((SECONDS - started < 60)); do
    if grep -q 'one of them may have died' err; then # SIGTERM has no effect while it is stopped
        kill -CONT "$victim" 2>/dev/null || true
    fi
    sleep 0.1
done
wait $job || code=$?
[[ $code != 0 ]] || fail "the job reports success"
grep -q '^kvshift: rank 0: waited 6 s for the other ranks; one of them may have died' err || fail "$(cat err)"
