#!/usr/bin/env bash
# Every command of README.md runs as printed, in order, with nothing but the command and examples/; then the
# commands of docs/ that take less than 20 s and whose inputs exist.
#
# Commands of README.md are the indented lines that begin with '$ '; a line that ends in a backslash continues.  Only
# the rules of `shorten` reduce the work of a command.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/documented.bash"
source=$(cd "$here/../.." && pwd)
mkdir build
ln -s "$KVSHIFT" build/kvshift
cp -r "$source/examples" .

# Containers run as root, which Open MPI must allow explicitly, and may have one core.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_btl_vader_single_copy_mechanism=none

# Reduces the work of a command: smaller values, and appended options, which override earlier ones.
shorten() {
    sed -E -e 's/--steps [0-9]+/--steps 4/' -e 's/--checkpoint-every [0-9]+/--checkpoint-every 2/' \
        -e 's/--scale desk/--scale smoke/' \
        -e '/kvshift bench train/s/( *#.*)?$/ --steps 1 --batch 1 --length 64/' \
        -e '/kvshift bench infer/s/( *#.*)?$/ --rounds 1 --prompt 32 --gen 4/' \
        -e '/examples\/novels\/compare/s/$/ --steps 2 --seeds 1 --model desk-1m/'
}

# Prints why a command cannot run here; empty = it can run.
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

# ---- docs/ -----------------------------------------------------------------------------------------

# Prints a file that the command reads and that does not exist, or a placeholder.
missing_input() { # LINE
    local -a words
    local i
    eval "words=($1)"
    for ((i = 1; i < ${#words[@]}; i++)); do
        case ${words[i - 1]} in
        --out)
            if [[ $1 == *--resume* ]]; then
                [[ -e ${words[i]} ]] || echo "${words[i]}"
            else
                [[ ! -e ${words[i]} ]] || echo "new ${words[i]}"
            fi
            ;;
        --data | --init-from | -m) [[ -e ${words[i]} ]] || echo "${words[i]}" ;;
        convert) [[ ${words[i]} == -* || -e ${words[i]} ]] || echo "${words[i]}" ;;
        esac
        case ${words[i - 1]} in --out | -o | --svg | --html | --markdown) continue ;; esac
        case ${words[i]} in
        IN | OUT* | MODEL | NAME | N) echo "${words[i]}" ;;
        -* | '<|'*) ;;
        */* | *.txt | *.json | *.jsonl | *.zst | *.bin | *.gguf | tokenizer*)
            [[ -e ${words[i]} || ${words[i - 1]} == kvshift ]] || echo "${words[i]}"
            ;;
        esac
    done | sed -n 1p
}

export PATH=$PWD/build:$PATH
documented_lines "$source"/docs/*.md | shorten >documented
set -f
ran=0
while IFS= read -r command <&3; do
    [[ $command == kvshift\ *\ * ]] || continue # the name of a command, not a line to type
    reason=$(missing_input "$command")
    if [[ -n $reason ]]; then
        echo "SKIPPED: no '$reason': $command"
        continue
    fi
    if [[ $command == 'kvshift serve '* ]]; then
        echo "SKIPPED: runs until it is stopped; tests/cli/serve.sh has it: $command"
        continue
    fi
    started=$SECONDS code=0
    env -u KVSHIFT timeout --kill-after 5 20 bash -f -c "$command" >out 2>&1 </dev/null || code=$?
    if [[ $code == 124 || $code == 130 || $code == 143 || $code == 137 ]]; then
        echo "SKIPPED: takes more than 20 s: $command"
        continue
    fi
    if [[ $code != 0 ]] && grep -q 'already holds this experiment' out; then
        echo "SKIPPED: README.md has it: $command"
        continue
    fi
    [[ $code == 0 ]] || fail "exit code $code of '$command': $(tail -n 5 out)"
    ran=$((ran + 1))
    echo "$((SECONDS - started)) s: $command"
done 3<documented
[[ $ran -ge 30 ]] || fail "only $ran commands of docs/ were run"
echo "passed"
