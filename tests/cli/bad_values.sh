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

# refused CODE TEXT OPTION...: as for a run that would write to new/run.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    "$KVSHIFT" train --steps 1 --out new/run "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat "$work/err")"
    [[ $(wc -l <"$work/err") == 1 ]] || fail "'$*' says more than one line: $(cat "$work/err")"
    [[ $(cat "$work/err") == "kvshift: "*"$text"* ]] || fail "'$*' says: $(cat "$work/err")"
    [[ ! -s $work/out ]] || fail "'$*' prints: $(cat "$work/out")"
    [[ -z $(ls -A "$work/place") ]] || fail "'$*' leaves $(ls -A "$work/place")"
}

refused 2 "heads" --dim 64 --heads 5
refused 2 "kv heads" --heads 4 --kv-heads 8
refused 2 "kv heads" --heads 4 --kv-heads 3
refused 2 "option '--heads': expected a whole number of at least 1, found '0'" --heads 0
refused 2 "option '--shift-window': expected a whole number from 1 to 3, found '0'" --shift-window 0
refused 2 "option '--shift-window'" --shift-window 4
refused 2 "window" --shift-form gate --shift-window 2
refused 2 "expected none, k, v, kv or qkv, found 'vk'" --shift vk
refused 2 "pool" --vocab 100 --pool 128
refused 2 "option '--lr': expected a number of at least 0, found '-0.001'" --lr -0.001
refused 2 "option '--lr'" --lr fast
refused 2 "option '--lr'" --lr nan
refused 2 "option '--steps'" --steps 1e3
refused 2 "accumulate" --batch 128 --accumulate 3
refused 2 "beta1" --beta1 1
refused 2 "option '--out' needs a value" --out
refused 2 "nosuch" --cpu-level nosuch
refused 2 "option '--task'" --task sorting
KVSHIFT_DIM=wide refused 2 "environment variable 'KVSHIFT_DIM'"
refused 1 "nowhere" --init-from nowhere

# A folder that cannot be made, seen before any training; also for root, whom no mode bits stop.
refused 1 "$work/out/run" --out "$work/out/run"
refused 1 "/proc/" --out /proc/kvshift/run
echo "passed"
