#!/usr/bin/env bash
# An experiment whose runs are split over ranks: the same results as on one, also after a stop.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/mpirun.bash"

smoke=(repro induction-depth --scale smoke --seeds 2)
"$KVSHIFT" "${smoke[@]}" --out one --quiet >out
ranks 3 "$KVSHIFT" "${smoke[@]}" --out three --threads 1 >out 2>err || fail "$(cat err)"
grep -q '^  plan:  8 of 8 runs to do, split over 3 ranks, ' err || fail "no plan: $(cat err)"
[[ $(grep -c '^[1-8] of 8  ' err) == 8 ]] || fail "not each run once: $(cat err)"
[[ $(grep -c '^results three/results.json$' out) == 1 ]] || fail "not one rank speaks: $(cat out)"
cmp one/results.json three/results.json || fail "other results on three ranks"
cmp one/accuracy.csv three/accuracy.csv || fail "another figure on three ranks"

# A text is made once, and learned by all.
text=(repro qkv --scale smoke --seeds 2 --quiet)
"$KVSHIFT" "${text[@]}" --out text1 >out
ranks 2 "$KVSHIFT" "${text[@]}" --out text2 >out 2>err || fail "$(cat err)"
cmp text1/results.json text2/results.json || fail "other results of a text on two ranks"

# What only computes is the first rank's.
ranks 2 "$KVSHIFT" repro theorem2 --quiet --out theorem >out || fail "theorem2"
[[ $(grep -c '^page ' out) == 1 ]] || fail "$(cat out)"

# Killed while it runs, and gone on with on another number of ranks.
mpirun -np 2 "$KVSHIFT" "${smoke[@]}" --out killed --quiet >/dev/null 2>&1 &
pid=$!
until [[ $(ls -d killed/runs/*/train.jsonl 2>/dev/null | wc -l) -ge 2 ]]; do
    kill -0 "$pid" || fail "it ended by itself"
done
pkill -KILL -P "$pid" || fail "the kill came too late"
wait "$pid" 2>/dev/null || true
ranks 3 "$KVSHIFT" "${smoke[@]}" --out killed --resume --quiet >out 2>err || fail "$(cat err)"
cmp one/results.json killed/results.json || fail "other results after a kill"

# Ranks that do not mean the same.
refused 2 "rank 1: 'four/plan.json' is for scale 'smoke', expected 'desk'" \
    -np 1 "$KVSHIFT" "${smoke[@]}" --out four : \
    -np 1 "$KVSHIFT" repro induction-depth --scale desk --seeds 2 --out four
refused 1 "rank 1: 'six/plan.json' is missing on this rank" \
    -np 1 "$KVSHIFT" "${smoke[@]}" --out five : -np 1 "$KVSHIFT" "${smoke[@]}" --out six
refused 2 "rank 1: 12 runs are planned here, 8 on rank 0" \
    -np 1 "$KVSHIFT" "${smoke[@]}" --out seven : \
    -np 1 "$KVSHIFT" repro induction-depth --scale smoke --seeds 3 --out seven
refused 2 "unknown experiment 'xyz'" -np 2 "$KVSHIFT" repro xyz
