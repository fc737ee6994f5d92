#!/usr/bin/env bash
# The interface that users' scripts rely on: output, exit codes, keys, columns, and bits of short
# runs.  Each tests/contract/NAME.txt is a transcript.  Its lines "$ COMMAND" are run in order, in one
# folder per transcript, and what they print must equal what the transcript holds: output indented, errors behind
# "!", the exit code if it is not 0.
#
#   tests/cli/long_contract.sh            compares
#   tests/cli/long_contract.sh --update   rewrites the transcripts; read the diff before you commit
#
# Runs use one thread and the level "baseline", whose bits are the same on every x86-64 machine with
# the same compiler.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
transcripts=$here/../contract
export OMP_WAIT_POLICY=passive LC_ALL=C KVSHIFT_THREADS=1 KVSHIFT_CPU_LEVEL=baseline
if [[ $("$KVSHIFT" version) != *GCC* || $(uname -m) != x86_64 ]]; then
    echo "SKIPPED: the stored bits are those of GCC on x86-64"
    exit 77
fi
if ! command -v mpirun >/dev/null || ! "$KVSHIFT" version | grep -q 'MPI yes'; then
    echo "SKIPPED: some commands need MPI (Debian: libopenmpi-dev openmpi-bin)"
    exit 77
fi
. "$here/mpirun.bash"

# ---- functions for the transcripts ---------------------------------------------------------------

kvshift() { "$KVSHIFT" "$@"; }

# The names of all options in a help text.
options() { kvshift "$@" --help all | grep -oE '(^|[ ,])--[a-z][a-z0-9-]*' | tr -d ' ,' | sort -u | paste -sd ' ' | fold -s -w 100; }

# The names of all keys in JSON files.
keys() { grep -ohE '"[A-Za-z_0-9.-]+" ?:' "$@" | tr -d '": ' | sort -u | paste -sd ' ' | fold -s -w 100; }

# A run's log without times and without the command.
log_of() { sed -E 's/"(seconds|command)":("[^"]*"|[0-9.e-]+),?//g' "$1/train.jsonl"; }

# SHA-256 of a run's weights and of its log.
sums() {
    local run
    for run in "$@"; do
        printf '%s weights %.16s log %.16s\n' "$run" "$(sha256sum <"$run/model.safetensors")" \
            "$(log_of "$run" | sha256sum)"
    done
}

# The files of a folder, with the numbers in the names of event files left out.
files() { (cd "$1" && find . -type f -o -type l) | sed -E 's/tfevents\..*/tfevents/' | sort; }

# Times, rates, machine and version differ from run to run.
normalise() {
    sed -E -e "s#$work#WORK#g" \
        -e 's/[0-9.]+ (s|ms|min)( left)?([ ,;]|$)/TIME\3/g' \
        -e 's/[0-9.]+k? tokens\/s/RATE/g' \
        -e 's/("(seconds|tokens_per_s|prompt_tokens_per_s|started|commit|compiler|openmp|processor|version|kvshift|peak_bytes|usable)": ?)("[^"]*"|[0-9.e+-]+|true|false)/\1X/g' \
        -e 's/[ \t]+$//'
}

# ---- run the transcripts -------------------------------------------------------------------------

transcribe() { # TRANSCRIPT
    local line code
    while IFS= read -r line <&3; do
        case $line in
        '#'*) printf '%s\n' "$line" ;;
        '$ '*)
            printf '\n%s\n' "$line"
            code=0
            eval "${line#\$ }" >out.txt 2>err.txt </dev/null || code=$?
            normalise <out.txt | sed 's/^/  /'
            normalise <err.txt | sed 's/^/! /'
            [[ $code == 0 ]] || printf '[exit %d]\n' "$code"
            ;;
        esac
    done 3<"$1"
}

failed=0
for transcript in "$transcripts"/*.txt; do
    name=$(basename "$transcript" .txt)
    mkdir "$work/$name"
    cd "$work/$name"
    set +e
    transcribe "$transcript" >"$work/$name.new"
    set -e
    if [[ ${1-} == --update ]]; then
        cp "$work/$name.new" "$transcript"
    elif ! diff -u --label expected "$transcript" --label found "$work/$name.new" >"$work/$name.diff"; then
        echo "$name: differs"
        head -n 60 "$work/$name.diff"
        failed=1
    fi
done
cd "$work"
[[ $failed == 0 ]] || fail "the contract is broken; if that is meant, run $0 --update and say why in CHANGELOG.md"
