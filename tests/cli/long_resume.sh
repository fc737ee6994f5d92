#!/usr/bin/env bash
# A run that is killed many times ends with the same bytes as an undisturbed run; damaged
# checkpoints are detected; a full disk leaves the last complete checkpoint in place.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

options=(--shift qkv --dim 48 --heads 4 --kv-heads 2 --layers 2 --vocab 64 --pool 40 --max-length 32
    --batch 32 --steps 1200 --schedule cosine --dropout 0.1 --eval-every 100 --eval-sequences 200
    --checkpoint-every 5 --quiet)
train() { # DIR OPTION...
    "$KVSHIFT" train "${options[@]}" --out "$@"
}

# ---- killed at 20 random moments ----

train whole >/dev/null
RANDOM=7
kills=0
while [[ $kills -lt 20 ]]; do
    "$KVSHIFT" train "${options[@]}" --out killed --resume auto >/dev/null 2>>said &
    pid=$!
    sleep "0.$((RANDOM % 9 + 10))"
    if ! kill -9 "$pid" 2>/dev/null; then
        wait "$pid"
        break # it finished before all kills were done
    fi
    wait "$pid" 2>/dev/null || true
    kills=$((kills + 1))
done
train killed --resume auto >/dev/null 2>>said
cmp whole/model.safetensors killed/model.safetensors || fail "different weights after $kills kills"
strip() { sed 's/,"seconds":[^,}]*//' "$1/train.jsonl" | tail -n +2; }
cmp <(strip whole) <(strip killed) || fail "a different log after $kills kills"
echo "killed $kills times: the same weights and log"
[[ $kills == 20 ]] || fail "only $kills kills hit the run"

# ---- a lock against a second process ----

"$KVSHIFT" train "${options[@]}" --out locked >/dev/null 2>&1 &
pid=$!
while [[ ! -s locked/train.jsonl ]]; do sleep 0.01; done
code=0
train locked --resume auto >/dev/null 2>locked.err || code=$?
kill "$pid" 2>/dev/null || true
wait "$pid" 2>/dev/null || true
[[ $code == 1 ]] || fail "a second process got code $code: $(cat locked.err)"
grep -q "in use by another process" locked.err || fail "a second process prints: $(cat locked.err)"

# ---- damage ----

flip() { # changes one byte in the middle of a file
    local size
    size=$(stat -c %s "$1")
    printf '\xa5' | dd of="$1" bs=1 seek=$((size / 2)) conv=notrunc status=none
}
for file in model.safetensors config.json optimizer.safetensors state.json DONE; do
    rm -rf damaged && cp -a whole damaged
    flip "damaged/ckpt/step-00001200/$file"
    train damaged --resume >/dev/null 2>err || fail "damage to $file: cannot resume: $(cat err)"
    grep -q "1 damaged checkpoint skipped" err || fail "damage to $file: $(cat err)"
    cmp whole/model.safetensors damaged/model.safetensors ||
        fail "damage to $file: different weights"
done

# Every file of a checkpoint of a run on text, at its start, middle and end; and each one absent.
for i in $(seq 100); do echo "line $i of a text"; done >text.txt
"$KVSHIFT" tokenizer train text.txt --vocab 270 --out tokenizer.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tokenizer.json --out corpus --quiet >/dev/null
text() { # DIR OPTION...
    "$KVSHIFT" train --data corpus --dim 16 --heads 2 --layers 1 --context 16 --batch 2 --steps 6 \
        --checkpoint-every 6 --eval-every 0 --quiet --out "$@"
}
refused() { # WHAT FILE: the only checkpoint is damaged
    local code=0
    text damaged --resume >/dev/null 2>err || code=$?
    [[ $code == 1 ]] || fail "$1 $2: exit $code"
    grep -q "1 damaged checkpoint skipped (.*$2.*); continuing from 'the start'" err ||
        fail "$1 $2: $(cat err)"
    grep -q "^kvshift: 'damaged' has no complete checkpoint to continue from" err || fail "$1 $2: $(cat err)"
}
text intact >/dev/null
files=$(ls intact/ckpt/step-00000006)
[[ $(wc -w <<<"$files") == 6 && $files == *tokenizer.json* ]] || fail "a checkpoint has: $files"
for file in $files; do
    size=$(stat -c %s "intact/ckpt/step-00000006/$file")
    for at in 0 $((size / 2)) $((size - 2)); do
        rm -rf damaged && cp -a intact damaged
        byte=$(od -An -tu1 -j"$at" -N1 "intact/ckpt/step-00000006/$file")
        printf "\\x$(printf %x $((byte ^ 32)))" |
            dd of="damaged/ckpt/step-00000006/$file" bs=1 seek="$at" conv=notrunc status=none
        refused "byte $at of" "$([[ $file == DONE ]] && echo state.json || echo "$file")"
    done
    rm -rf damaged && cp -a intact damaged
    rm "damaged/ckpt/step-00000006/$file"
    refused "without" "$file"
done
echo "every file of a checkpoint is vouched for: ${files//$'\n'/ }"
rm -rf damaged && cp -a whole damaged
for dir in damaged/ckpt/step-*; do flip "$dir/optimizer.safetensors"; done
code=0
train damaged --resume >/dev/null 2>err || code=$?
[[ $code == 1 ]] || fail "all checkpoints damaged: exit $code"
grep -q "no complete checkpoint" err || fail "all checkpoints damaged: $(cat err)"
truncate -s 100 damaged/ckpt/step-00001200/model.safetensors
code=0
train damaged --resume >/dev/null 2>err || code=$?
[[ $code == 1 ]] || fail "truncated: exit $code"

# ---- a disk that is full: no file may grow beyond 100 KB ----

train full --steps 10 >/dev/null
cp -a full before
code=0
(
    trap '' XFSZ
    ulimit -f 100
    train full --resume >/dev/null 2>err
) || code=$?
[[ $code == 1 ]] || fail "full disk: exit $code, $(cat err)"
grep -q "cannot write" err || fail "full disk: $(cat err)"
[[ $(ls -A full/ckpt) == "$(ls -A before/ckpt)" ]] || fail "full disk: $(ls -A full/ckpt)"
train full --resume >/dev/null || fail "cannot resume after a full disk"
cmp whole/model.safetensors full/model.safetensors || fail "full disk: different weights"
echo "passed"
