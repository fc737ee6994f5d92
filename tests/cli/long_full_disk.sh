#!/usr/bin/env bash
# A disk that fills up during a run: one clear line, the last complete checkpoint is unchanged, and
# after space is freed the run resumes to the same bytes as an undisturbed run.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"

# The disk is a file system in memory, in a mount namespace of our own.
if [[ ${1-} != inside ]]; then
    unshare=(unshare --mount)
    [[ $(id -u) == 0 ]] || unshare+=(--map-root-user)
    probe='mount -t tmpfs -o size=1m none /mnt'
    if ! "${unshare[@]}" bash -c "$probe" 2>/dev/null; then
        echo "skipped: this machine permits no mount namespaces"
        exit 77
    fi
    exec "${unshare[@]}" "$0" inside
fi

work=$(mktemp -d)
trap 'umount "$work/disk" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
mkdir disk
mount -t tmpfs -o size=8m none disk

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

for i in $(seq 200); do echo "line $((i % 9)) of a text that is learned"; done >text.txt
"$KVSHIFT" data build text.txt -t bytes --out corpus --quiet >/dev/null
train() { # DIR OPTION...
    "$KVSHIFT" train --data corpus --shift kv --dim 48 --heads 4 --layers 2 --context 32 --batch 4 \
        --steps 120 --dropout 0.1 --eval-every 40 --checkpoint-every 5 --sample-every 30 --quiet \
        --out "$@"
}
strip() { sed 's/,"seconds":[^,}]*//' "$1/train.jsonl" | tail -n +2; }

# full WHAT DIR OPTION...: a run that must fail because the disk is full.
full() {
    local what=$1 code=0
    shift
    train "$@" >out 2>err || code=$?
    [[ $code == 1 ]] || fail "$what: exit $code, $(cat err)"
    [[ $(wc -l <err) == 1 ]] || fail "$what prints more than one line: $(cat err)"
    grep -Eq "^kvshift: cannot (write|make|sync).*No space left on device" err ||
        fail "$what prints: $(cat err)"
    [[ -z $(find "$1" -name '*.tmp-*') && ! -e $1/ckpt/.filling ]] ||
        fail "$what: left behind: $(find "$1" -name '*.tmp-*' -o -name .filling)"
    if [[ -e $1/ckpt/latest ]]; then
        "$KVSHIFT" generate -m "$1/ckpt/latest" -p line -n 3 >/dev/null || fail "$what: latest is damaged"
    fi
}

train whole >/dev/null

# Checkpoints are kept until the disk is full; then space is freed and the run resumes.
full "a disk that fills up" disk/run --keep 0
newest=$(readlink disk/run/ckpt/latest)
[[ -n $newest && $newest != step-00000120 ]] || fail "the disk was not filled: latest is $newest"
cp -r "disk/run/ckpt/$newest" before
full "going on without room" disk/run --keep 0 --resume
diff -r before "disk/run/ckpt/$newest" || fail "the last checkpoint changed"
mount -o remount,size=64m disk
train disk/run --keep 0 --resume >/dev/null || fail "cannot resume after space was freed"
cmp whole/model.safetensors disk/run/model.safetensors || fail "a full disk gives different weights"
cmp <(strip whole) <(strip disk/run) || fail "a full disk gives a different log"
cmp whole/samples.jsonl disk/run/samples.jsonl || fail "a full disk gives different samples"
echo "filled up at $newest: the same weights, log and samples"

# The same for every place of the failure: less and less free space, down to none.
for left in 400 200 100 60 30 12 4 0; do
    rm -rf disk/*
    mount -o remount,size=16m disk
    train disk/run --steps 10 >/dev/null
    room=$(($(df --output=avail -k disk | tail -1) - left))
    head -c "${room}K" /dev/zero >disk/ballast 2>/dev/null || true
    cp -r disk/run/ckpt before-"$left"
    full "$left KiB left" disk/run --resume
    for dir in before-"$left"/step-*; do
        diff -r "$dir" "disk/run/ckpt/${dir##*/}" >/dev/null || fail "$left KiB left: ${dir##*/} changed"
    done
    rm disk/ballast
    train disk/run --resume >/dev/null || fail "$left KiB left: cannot resume"
    cmp whole/model.safetensors disk/run/model.safetensors ||
        fail "$left KiB left: different weights"
    cmp <(strip whole) <(strip disk/run) || fail "$left KiB left: different log"
done
echo "passed"
