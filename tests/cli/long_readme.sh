#!/usr/bin/env bash
# Every command of README.md runs as printed, in order, with nothing but the command and examples/.
#
# Commands are the indented lines that begin with '$ '; a line that ends in a backslash goes on.  Work
# is made less where a command says how much it does, by the rules of `shorten`, and nowhere else.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
source=$(cd "$here/../.." && pwd)
mkdir build
ln -s "$KVSHIFT" build/kvshift
cp -r "$source/examples" .

# Containers run as root, which Open MPI wants to be told, and may have one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_btl_vader_single_copy_mechanism=none

# Options that stand for more work than a test needs; the last one given counts.
shorten() {
    sed -E -e 's/--steps [0-9]+/--steps 4/' -e 's/--checkpoint-every [0-9]+/--checkpoint-every 2/' \
        -e 's/--scale desk/--scale smoke/' \
        -e '/kvshift bench train/s/( *#.*)?$/ --steps 1 --batch 1 --length 64/' \
        -e '/kvshift bench infer/s/( *#.*)?$/ --rounds 1 --prompt 32 --gen 4/' \
        -e '/examples\/novels\/compare/s/$/ --steps 2 --seeds 1 --model desk-1m/'
}

# What cannot run here is named, with the reason; empty = it can.
missing() { # COMMAND
    case $1 in
    mpirun*)
        command -v mpirun >/dev/null || echo "no mpirun here (Debian: openmpi-bin)"
        "$KVSHIFT" version | grep -q 'MPI yes' || echo "kvshift was built without MPI"
        ;;
    *--html* | *'repro '*) command -v gnuplot >/dev/null || echo "no gnuplot here" ;;
    esac
}

sed -n '/^    \$ /{:more; /\\$/{N; s/\\\n */ /; b more}; s/^    \$ //p}' "$source/README.md" >printed
shorten <printed >commands
[[ $(wc -l <commands) -ge 25 ]] || fail "README.md has $(wc -l <commands) commands"

number=0
while IFS= read -r command <&3; do
    number=$((number + 1))
    reason=$(missing "$command")
    if [[ -n $reason ]]; then
        echo "SKIPPED: ${reason//$'\n'/, }: $command"
        continue
    fi
    started=$SECONDS
    env -u KVSHIFT timeout --kill-after 10 300 bash -c "$command" >out 2>&1 </dev/null ||
        fail "exit code $? of '$(sed -n "${number}p" printed)', run as '$command': $(tail -n 5 out)"
    echo "$((SECONDS - started)) s: $command"
done 3<commands

for file in runs/book/model.safetensors runs/compare/results.json book.gguf book-hf/model.safetensors; do
    [[ -s $file ]] || fail "the commands leave no '$file'"
done
echo "passed"
