#!/usr/bin/env bash
# The command $KVSHIFT_PUBLIC, which is linked with the shared library $KVSHIFT_LIBRARY, works like
# the command $KVSHIFT.  The shared library exports only the public API, so a command that used
# anything else of the library would not link.
set -euo pipefail
. "$(dirname "$0")/cli/begin.bash"
export KVSHIFT_THREADS=1
mkdir static public

if command -v nm >/dev/null; then
    nm -D --defined-only "$KVSHIFT_LIBRARY" >exported
    nm -D --undefined-only "$KVSHIFT_PUBLIC" >needed
    ! grep ' kvsi_' exported || fail "the library exports internal functions"
    ! grep ' kvsi_' needed || fail "the command needs internal functions"
    grep -q ' kvs_train\b' needed || fail "the command does not use the shared library"
fi

# run ARGUMENT...: runs both commands, each in its own folder.
run() {
    (cd static && "$KVSHIFT" "$@" >out 2>err) || fail "kvshift $*: $(cat static/err)"
    (cd public && "$KVSHIFT_PUBLIC" "$@" >out 2>err) || fail "kvshift-public $*: $(cat public/err)"
}

# same ARGUMENT...: runs both commands and compares what they print.
same() {
    run "$@"
    [[ -s public/out ]] || fail "'$*' prints nothing"
    cmp static/out public/out || fail "'$*' prints something else"
}

same version
same train --help
same config schema train
run train --steps 3 --layers 1 --dim 16 --heads 2 --vocab 64 --pool 8 --batch 4 --out run \
    --eval-sequences 8 --checkpoint-every 2 --quiet
cmp static/run/model.safetensors public/run/model.safetensors || fail "the weights differ"
same generate -m run --ids 11,12,13 -n 5 --temp 0
same inspect run
