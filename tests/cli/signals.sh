#!/usr/bin/env bash
# A lost terminal or reader saves a training run, signals that are ignored stay ignored, and a mapped
# file that becomes shorter ends a command with one line.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

long=(train --layers 1 --dim 16 --heads 2 --vocab 32 --pool 8 --max-length 16 --batch 8 --threads 1
    --steps 100000000 --eval-sequences 8)

wait_for_steps() { # FOLDER
    local i
    for ((i = 0; i < 600; i++)); do
        [[ -e $1/train.jsonl && $(wc -l <"$1/train.jsonl") -gt 2 ]] && return
        sleep 0.05
    done
    fail "$1: no steps"
}
stopped_by() { # NAME CODE FOLDER
    [[ $code == "$2" ]] || fail "$1: exit code $code: $(cat err)"
    [[ -s $3/model.safetensors && -s $3/ckpt/latest/DONE ]] || fail "$1: the run is not saved"
}

# ---- the terminal is lost: SIGHUP, from the shell and from the kernel ----

"$KVSHIFT" "${long[@]}" --out hup >/dev/null 2>err &
pid=$!
wait_for_steps hup
kill -HUP $pid
kill -HUP $pid 2>/dev/null || true
code=0
wait $pid || code=$?
stopped_by SIGHUP 129 hup
grep -q '^stopped by SIGHUP after step' err || fail "$(cat err)"

# nohup: the signal stays ignored.
nohup "$KVSHIFT" "${long[@]}" --out nohup >/dev/null 2>err &
pid=$!
wait_for_steps nohup
kill -HUP $pid
lines=$(wc -l <nohup/train.jsonl)
for ((i = 0; i < 600; i++)); do
    [[ $(wc -l <nohup/train.jsonl) -gt $((lines + 5)) ]] && break
    sleep 0.05
done
[[ $(wc -l <nohup/train.jsonl) -gt $((lines + 5)) ]] || fail "nohup: SIGHUP ends the run"
kill -TERM $pid
code=0
wait $pid || code=$?
stopped_by SIGTERM 143 nohup

# ---- the reader of the progress has gone: SIGPIPE ----

{
    code=0
    timeout 60 "$KVSHIFT" "${long[@]}" --eval-every 50 --out pipe 2>&1 >/dev/null || code=$?
    echo "$code" >code
} | head -n 1 >/dev/null
code=$(<code)
: >err
stopped_by SIGPIPE 141 pipe

# A command that is not asked to save ends at once, without a message.
code=0
{ "$KVSHIFT" tokenizer encode -t bytes --text "$(head -c 100000 /dev/zero | tr '\0' a)" 2>err ||
    echo $? >code; } | head -c 1 >/dev/null
[[ $(<code) == 141 && ! -s err ]] || fail "a closed pipe: exit $(<code): $(cat err)"

# ---- a file that becomes shorter while it is mapped ----

for i in $(seq 60); do echo "once upon a time there were $i tests"; done >text.txt
"$KVSHIFT" tokenizer train --vocab 290 --out words.json text.txt >/dev/null 2>&1
"$KVSHIFT" data build -t words.json --out corpus text.txt --quiet >/dev/null
"$KVSHIFT" train --data corpus --layers 1 --dim 16 --heads 2 --context 64 --batch 2 --steps 1 \
    --eval-sequences 2 --quiet --threads 1 --out model >/dev/null
if ldd "$KVSHIFT" | grep -qE 'lib(asan|tsan)' || grep -qa '__[at]san_init' "$KVSHIFT"; then
    echo "passed, without the mapped file: sanitizers report the signal themselves"
    exit 0
fi
mkfifo questions
"$KVSHIFT" chat -m model --template raw --temp 0 -n 4 <questions >answers 2>err &
pid=$!
exec 7>questions
echo once >&7
for ((i = 0; i < 600; i++)); do
    [[ -s answers ]] && break
    sleep 0.05
done
[[ -s answers ]] || fail "no answer: $(cat err)"
: >model/model.safetensors
echo upon >&7
exec 7>&-
code=0
wait $pid || code=$?
[[ $code == 1 ]] || fail "a file that became shorter: exit $code: $(cat err)"
[[ $(cat err) == "kvshift: cannot read 'model/model.safetensors': it has become shorter while it was used, or its disk failed" ]] ||
    fail "a file that became shorter: $(cat err)"
echo "passed"
