#!/usr/bin/env bash
# Bad values: one clear line, the right exit code, nothing left on disk.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"

work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir "$work/place"
cd "$work/place"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# refused CODE TEXT OPTION...: training into new/run fails with the code and the text.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    "$KVSHIFT" train --steps 1 --out new/run "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat "$work/err")"
    [[ $(wc -l <"$work/err") == 1 ]] || fail "'$*' prints more than one line: $(cat "$work/err")"
    [[ $(cat "$work/err") == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat "$work/err")"
    [[ ! -s $work/out ]] || fail "'$*' prints: $(cat "$work/out")"
    [[ -z $(ls -A "$work/place") ]] || fail "'$*' leaves $(ls -A "$work/place")"
}

refused 2 "heads" --dim 64 --heads 5
refused 2 "kv heads" --heads 4 --kv-heads 8
refused 2 "kv heads" --heads 4 --kv-heads 3
refused 2 "option '--heads': expected a whole number from 1 to 16777216, found '0'" --heads 0
refused 2 "option '--shift-window': expected a whole number from 1 to 3, found '0'" --shift-window 0
refused 2 "option '--shift-window'" --shift-window 4
refused 2 "window" --shift-form gate --shift-window 2
refused 2 "expected none, k, v, kv, qkv, gate, clamp or smear, found 'vk'" --shift vk
refused 2 "option '--shift-form' is free, but '--shift smear' means form gate" \
    --shift smear --shift-form free
refused 2 "identity" --shift gate --shift-init identity
refused 2 "'softmax' does not apply to form 'data'" --shift-form data --shift-init softmax
refused 2 "rotary fraction" --shift-form hard
refused 2 "option '--body'" --body gpt3
refused 2 "option '--slopes': expected a number of at least 0, found 'steep'" --slopes 1,steep
refused 2 "slopes need positions alibi" --slopes 0.5
refused 2 "3 slopes for 4 heads" --positions alibi --slopes 1,2,3
refused 2 "option '--sliding-layers'" --sliding-window 4 --sliding-layers 1,
refused 2 "0 to 63, found '64'" --sliding-window 4 --sliding-layers 64
refused 2 "beyond the last of 2 layers" --layers 2 --sliding-window 4 --sliding-layers 2
refused 2 "sliding window" --sliding-heads 2
refused 2 "option '--dropout-attention'" --dropout 0.1 --dropout-attention 1
refused 2 "option '--dropout'" --dropout 1.5
refused 2 "head none" --head none --tied --vocab 64 --pool 32
refused 2 "128 logits for a vocabulary of 1000" --head none --vocab 1000
refused 2 "identity projections" --identity-projections --kv-heads 2
refused 2 "nothing to learn" --shift none --only-shift
refused 2 "option '--pool' is for task induction" --task ngram --pool 64
refused 2 "option '--loss' is for task induction" --task ngram --loss all
refused 2 "option '--pairs' is for task ngram" --pairs 10
refused 2 "option '--vocab' is 100, but task ngram has 50 tokens" \
    --task ngram --alphabet 20 --pairs 5 --answers 30 --vocab 100
refused 2 "pairs" --task ngram --alphabet 3 --pairs 10
refused 2 "pool" --vocab 100 --pool 128
refused 2 "option '--lr': expected a number from 0 to below 1000, found '-0.001'" --lr -0.001
refused 2 "option '--lr'" --lr fast
refused 2 "option '--lr'" --lr nan
refused 2 "option '--steps'" --steps 1e3
refused 2 "accumulate" --batch 128 --accumulate 3
refused 2 "beta1" --beta1 1
refused 2 "option '--eps': expected a number above 0 to below 1, found '0'" --eps 0
refused 2 "option '--out' needs a value" --out
refused 2 "nosuch" --cpu-level nosuch
refused 2 "option '--task'" --task sorting
KVSHIFT_DIM=wide refused 2 "environment variable 'KVSHIFT_DIM'"
refused 1 "nowhere" --init-from nowhere

# A folder that cannot be created is reported before training, also for root, who ignores mode bits.
refused 1 "$work/out/run" --out "$work/out/run"
refused 1 "/proc/" --out /proc/kvshift/run
echo "passed"
