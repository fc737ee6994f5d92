#!/usr/bin/env bash
# One allocation fails: the command reports that memory ran out and exits with 1, or its result is
# unchanged.  No crash, no different result, no unreadable file.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

skip() {
    echo "skipped: $*"
    exit 77
}

[[ -e ${KVSHIFT_FAIL_ALLOC:-} ]] || skip "there is no library that makes allocations fail"
if ldd "$KVSHIFT" | grep -qE 'lib(asan|tsan)' || grep -qa '__[at]san_init' "$KVSHIFT"; then
    skip "the command is built with a sanitizer"
fi

points=100 # per command
last=30    # more points at the end
export OMP_NUM_THREADS=1
export GOMP_SPINCOUNT=1000 # otherwise the command re-executes itself and the count restarts

# ---- the commands ----

train=(train --layers 1 --dim 16 --heads 2 --vocab 32 --pool 8 --max-length 16 --batch 8 --steps 3
    --checkpoint-every 1 --eval-every 1 --eval-sequences 8 --quiet --threads 1)

# llama2.c's tokenizer.bin: a score, a length and the bytes of each token.
put_token() { # SCORE-BYTES TEXT
    # shellcheck disable=SC2059
    printf "$1$(printf '\\x%02x\\x00\\x00\\x00' ${#2})"
    printf '%s' "$2"
}
make_bin() {
    local none='\x00\x00\x00\x00' i
    printf '\x10\x00\x00\x00'
    put_token "$none" '<unk>'
    put_token "$none" $'\n<s>\n'
    put_token "$none" $'\n</s>\n'
    for ((i = 0; i < 256; i++)); do
        put_token "$none" "$(printf '<0x%02X>' $i)"
    done
    for i in ' ' o n c e ' o' nc ' onc' ' once'; do
        put_token '\x00\x00\x80\xbf' "$i"
    done
}
make_bin >words.bin

for ((i = 0; i < 60; i++)); do
    echo "once upon a time there were $i tests, and it's the last that counts"
    echo
done >text.txt
"$KVSHIFT" tokenizer train --vocab 300 --out words.json text.txt >/dev/null
"$KVSHIFT" "${train[@]}" --out before >/dev/null
"$KVSHIFT" data build -t words.json --valid 0.2 --out corpus text.txt --quiet >/dev/null
"$KVSHIFT" train --data corpus --layers 1 --dim 16 --heads 2 --context 32 --batch 2 --steps 1 \
    --eval-sequences 2 --quiet --threads 1 --out model >/dev/null

declare -A commands=(
    [train]="${train[*]} --out out"
    [resume]="${train[*]} --steps 4 --resume --out out"
    [convert]="convert model out.gguf --quiet"
    [encode]="tokenizer encode -t words.json --text once"
    [encode_scored]="tokenizer encode -t words.bin --text once"
    [decode_scored]="tokenizer decode -t words.bin 267 260 262"
    [score]="score -m model --context once --continuation upon --threads 1"
    [generate]="generate -m model --prompt once --new-tokens 4 --threads 1 --json"
    [build]="data build -t words.json --valid 0.2 --out out text.txt --quiet"
)

prepare() { # NAME
    rm -rf out out.gguf
    [[ $1 != resume ]] || cp -a before out
}

run() { # NAME ENVIRONMENT...
    local name=$1
    shift
    prepare "$name"
    # shellcheck disable=SC2086
    env "$@" LD_PRELOAD="$KVSHIFT_FAIL_ALLOC" "$KVSHIFT" ${commands[$name]} >stdout 2>stderr
}

# All output files of a run, without times and values computed from them.
left() {
    local file
    sed -E 's/[0-9.]+[kM]? (ms|s|tokens\/s)\b//g; s/"[a-z_]*(seconds|per_s)": [0-9.e-]+//' stdout
    { find out out.gguf \( -type f -o -type l \) ! -path '*/tb/*' ! -name DONE ! -name env.json \
        2>/dev/null || true; } | sort | while read -r file; do
        echo "$file"
        case $file in
        *.json | *.jsonl) sed -E 's/"seconds": ?[0-9.e-]+//' "$file" ;;
        *.csv) sed -E 's/^(([^,]*,){6})[^,]*/\1/' "$file" ;;
        *) if [[ -L $file ]]; then readlink "$file"; else cksum <"$file"; fi ;;
        esac
    done
}

# ---- the sweep ----

for name in "${!commands[@]}"; do
    run "$name" FAIL_ALLOC_COUNT=count || fail "$name: $(cat stderr)"
    count=$(<count)
    ((count > points)) || fail "$name: only $count allocations"
    left >wanted
    run "$name" FAIL_ALLOC=0 || fail "$name: $(cat stderr)"
    left | cmp -s - wanted || fail "$name: two equal runs differ"
    for ((i = 1; i <= points + last; i++)); do
        # half of the points at the start, the others spread over all allocations; then the end,
        # where texts are decoded
        n=$((i > points ? count - (i - points) : i % 2 ? i : count * i / points))
        code=0
        run "$name" FAIL_ALLOC=$n || code=$?
        case $code in
        0) left | cmp -s - wanted || fail "$name, allocation $n: exit 0 and a different result" ;;
        1)
            grep -qiE 'memory|cannot allocate' stderr ||
                fail "$name, allocation $n: memory is not mentioned: $(cat stderr)"
            [[ $name != decode_scored || ! -s stdout ]] ||
                fail "$name, allocation $n: a part of the text, '$(cat stdout)'" ;;
        127) grep -q 'error while loading shared libraries' stderr || fail "$name, $n: 127" ;;
        *) fail "$name, allocation $n: exit $code: $(cat stderr)" ;;
        esac
        # A failed run can be resumed and gives the same result.
        if [[ $name == train && $code == 1 ]] && ((i % 4 == 0)); then
            "$KVSHIFT" "${train[@]}" --resume auto --out out >/dev/null 2>stderr ||
                fail "$name, allocation $n: cannot be resumed: $(cat stderr)"
            cmp out/model.safetensors before/model.safetensors ||
                fail "$name, allocation $n: a different model after resume"
        fi
    done
done
echo "passed"
