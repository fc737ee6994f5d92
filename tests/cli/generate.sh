#!/usr/bin/env bash
# kvshift generate: prompts, samples, stop strings, JSON and errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
# check PROGRAM: lines of `out` are the list o of JSON objects.
check() { python3 -c "
import json, math
o = [json.loads(line) for line in open('out')]
$1" || fail "$(cat out)"; }

for i in $(seq 300); do
    echo "line $((i % 7)): the cat sat on the mat — und die Bäume grün."
done >text.txt
"$KVSHIFT" tokenizer train text.txt --vocab 300 --special '<|endoftext|>' --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus --dim 64 --heads 4 --layers 1 --context 64 --batch 8 --steps 150 \
    --lr 4e-3 --out run --quiet >/dev/null

# An option, a file and standard input give the same prompt; an empty prompt starts from BOS.
"$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 >option
printf 'the cat' >prompt.txt
"$KVSHIFT" generate -m run -f prompt.txt -n 20 --temp 0 >file
"$KVSHIFT" generate -m run -n 20 --temp 0 <prompt.txt >input
cmp option file || fail "a prompt file gives a different text"
cmp option input || fail "a prompt on standard input gives a different text"
printf 'the cat\r\n' >line.txt
"$KVSHIFT" generate -m run -n 20 --temp 0 <line.txt >input
cmp option input || fail "a line end after the prompt is part of it"
"$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 --echo >echoed
cmp <(printf 'the cat'; cat option) echoed || fail "--echo prints: $(cat echoed)"
"$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 --echo --json >out
check "assert o[0]['text'] + '\n' == open('echoed').read()"
"$KVSHIFT" generate -m run -p '' -n 5 --temp 0 --json >out
bos=$("$KVSHIFT" tokenizer encode -t tok.json --text '<|endoftext|>')
check "assert o[0]['prompt_tokens'] == 1"
cp out empty
"$KVSHIFT" generate -m run --ids "$bos" -n 5 --temp 0 --json >out
cmp empty out || fail "an empty prompt does not start from BOS"

# An f16 KV cache changes the logits slightly; here the text stays the same.
"$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 --kv-cache f16 >halves
cmp option halves || fail "an f16 KV cache gives a different text"
"$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 --precision bf16 --json >rounded
! cmp -s <("$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 --json) rounded ||
    fail "--precision bf16 has the log-probabilities of f32"
"$KVSHIFT" generate -m run -p 'the cat' -n 20 --temp 0 --precision bf16 --exact --json >exact
cmp rounded exact || fail "--exact changes --precision bf16"
"$KVSHIFT" generate -m run -p 'the cat' --precision fp8 2>out && fail "precision fp8 is accepted"
grep -q "'--precision'.*f32 or bf16.*'fp8'" out && [[ $(wc -l <out) == 1 ]] ||
    fail "precision fp8 is refused with: $(cat out)"
"$KVSHIFT" generate -m run -p 'the cat' --kv-cache bf16 2>out && fail "a bf16 KV cache is accepted"
grep -q "'--kv-cache'.*f32.*f16" out || fail "bf16 is refused with: $(cat out)"

# One object: ids, text, log-probabilities of the model before sampling changes them, stop reason.
"$KVSHIFT" generate -m run -p 'the cat' -n 12 --temp 0 --json >out
check "
assert len(o) == 1 and len(o[0]['ids']) == len(o[0]['logprobs']) == 12
assert o[0]['finish'] == 'length' and o[0]['sample'] == 0 and o[0]['seed'] == 1
assert o[0]['text'].startswith(' sat on the mat')
assert all(p <= 0 for p in o[0]['logprobs'])"
ids=$(python3 -c "import json; print(*json.load(open('out'))['ids'], sep=',')")
context=$("$KVSHIFT" tokenizer encode -t tok.json --text 'the cat' | tr ' ' ,)
cp out generated
"$KVSHIFT" score -m run --ids "$context" --continuation-ids "$ids" >out
check "
g = json.load(open('generated'))
assert o[0]['greedy'] and max(abs(a - b) for a, b in zip(o[0]['logprobs'], g['logprobs'])) < 1e-5"
# Sampling changes which tokens are chosen, not their log-probabilities.
"$KVSHIFT" generate -m run -p 'the cat' -n 12 --temp 3 --top-k 9 --seed 3 --json >generated
ids=$(python3 -c "import json; print(*json.load(open('generated'))['ids'], sep=',')")
"$KVSHIFT" score -m run --ids "$context" --continuation-ids "$ids" >out
check "
g = json.load(open('generated'))
assert not o[0]['greedy'] and max(abs(a - b) for a, b in zip(o[0]['logprobs'], g['logprobs'])) < 1e-5"

# Samples of one prompt use consecutive seeds; each equals a run with one sample and that seed.
"$KVSHIFT" generate -m run -p line -n 15 --temp 1.5 --seed 7 --samples 3 --json >out
check "
assert [s['sample'] for s in o] == [0, 1, 2] and [s['seed'] for s in o] == [7, 8, 9]
assert len({s['text'] for s in o}) == 3"
sed -n 3p out >third
"$KVSHIFT" generate -m run -p line -n 15 --temp 1.5 --seed 9 --json >out
check "
t = json.load(open('third'))
assert t['ids'] == o[0]['ids'] and t['text'] == o[0]['text']"
"$KVSHIFT" generate -m run -p line -n 15 --temp 1.5 --seed 7 --samples 3 >out
[[ $(grep -c '^--- sample [0-2], seed [7-9] ---$' out) == 3 ]] ||
    fail "samples are not labelled: $(cat out)"

# Stop strings may span tokens; the first match ends the text; no part of the match is printed.
"$KVSHIFT" generate -m run -p 'the cat' -n 40 --temp 0 --stop 'die Bäume' --json >out
check "assert o[0]['text'] == ' sat on the mat — und ' and o[0]['finish'] == 'stop'"
"$KVSHIFT" generate -m run -p 'the cat' -n 40 --temp 0 --stop 'die Bäume' --stop 'mat —' >out
[[ $(cat out) == ' sat on the ' ]] || fail "'$(cat out)'"
"$KVSHIFT" generate -m run -p 'the cat' -n 10 --temp 0 --stop 'nowhere' >out
"$KVSHIFT" generate -m run -p 'the cat' -n 10 --temp 0 >all
cmp out all || fail "a stop string that does not occur shortens the text"

"$KVSHIFT" generate -m run --stop a --stop b --print-config >config.toml
"$KVSHIFT" generate --config config.toml -p 'the cat' -n 10 --temp 0 >out
cmp out all || fail "the printed configuration gives a different text"

# The repeat penalty makes repetitions rarer.
repeats() { "$KVSHIFT" generate -m run -p the -n 60 --temp 0 --ignore-eos --json "$@" 2>/dev/null |
    python3 -c "import json, sys; i = json.load(sys.stdin)['ids']; print(len(i) - len(set(i)))"; }
plain=$(repeats)
[[ $(repeats --repeat-penalty 100 --repeat-last 0) -lt $plain ]] || fail "the penalty has no effect"
[[ $(repeats --repeat-penalty 1) == "$plain" ]] || fail "a penalty of 1 has an effect"

# A full context ends generation with a note; invalid UTF-8 is replaced in JSON.
"$KVSHIFT" generate -m run -p 'the cat' -n 100 --temp 0 --ignore-eos --json >out 2>err
grep -q 'the context of 64 tokens is full' err || fail "$(cat err)"
check "assert o[0]['finish'] == 'context' and o[0]['prompt_tokens'] + len(o[0]['ids']) == 65"
"$KVSHIFT" generate -m run -t bytes --ids 1,2 -n 40 --temp 5 --seed 2 --json >out
check "assert '\ufffd' in o[0]['text']"
"$KVSHIFT" generate -m run -p a -n 3 --speed >/dev/null 2>err
grep -q '^sample 0: 3 tokens in .* per second$' err || fail "$(cat err)"

# Ids without a token in the tokenizer are accepted in the prompt and never generated.
for penalty in 1 1.3; do
    "$KVSHIFT" generate -m run -t bytes --ids 1,280,2 -n 9 --temp 5 --repeat-penalty "$penalty" --json >out ||
        fail "an id without a token is refused in the prompt"
    check "assert o[0]['prompt_tokens'] == 3 and max(o[0]['ids']) < 260"
done

refused() { # CODE TEXT ARGUMENT...
    local code=0
    "$KVSHIFT" "${@:3}" >out 2>err </dev/null || code=$?
    [[ $code == "$1" && $(wc -l <err) == 1 && ! -s out ]] || fail "'${*:3}' exits $code: $(cat err)"
    grep -qF -- "$2" err || fail "'${*:3}' prints: $(cat err)"
}
refused 2 "exclude each other" generate -m run -p x --ids 1
refused 2 "exclude each other" generate -m run -p x -f prompt.txt
refused 1 "nowhere.txt" generate -m run -f nowhere.txt
refused 2 "no BOS" generate -m run -t bytes
refused 2 "no BOS" generate -m run -t bytes -p ''
refused 2 "at least one id" generate -m run --ids ,
refused 2 "expected a text, found nothing" generate -m run -p x --stop ''
echo 'stop = "x"' >stop.toml
refused 2 "is not allowed in a file" generate -m run -p x --config stop.toml
refused 2 "repeat penalty" generate -m run -p x --repeat-penalty 1e9
refused 2 "'--samples'" generate -m run -p x --samples 0
refused 1 "the prompt has 100 tokens, the model's context is 64" \
    generate -m run --ids "$(seq -s, 0 99)" -n 3

# The model files define which tokens end a text, also without a tokenizer and for every sample.
"$KVSHIFT" convert run plain -t none --quiet
"$KVSHIFT" generate -m plain --ids 1,2,3 -n 12 --temp 0 --json >all
end=$(python3 -c "import json; i = json.load(open('all'))['ids']; last = max(i, key=i.index); print(last, i.index(last))")
read -r id length <<<"$end"
echo "{\"eos_token_id\": [299, $id]}" >plain/generation_config.json
"$KVSHIFT" generate -m plain --ids 1,2,3 -n 12 --temp 0 --samples 2 --json >out
check "
a = json.load(open('all'))
assert len(o) == 2
for x in o:
    assert x['finish'] == 'eos' and x['ids'] == a['ids'][:$length], x"
"$KVSHIFT" generate -m plain --ids 1,2,3 -n 12 --temp 0 --json --ignore-eos >out
cmp all out || fail "--ignore-eos does not continue"
# Training from the model keeps its end tokens.
"$KVSHIFT" train --init-from plain --pool 8 --max-length 16 --batch 2 --steps 1 --eval-sequences 2 \
    --quiet --out tuned >/dev/null
python3 -c "import json; c = json.load(open('tuned/config.json')); assert c['eos_token_id'] == $id, c" ||
    fail "further training loses the end tokens"
echo '{"eos_token_id": "two"}' >plain/generation_config.json
"$KVSHIFT" generate -m plain --ids 1,2,3 2>out && fail "a text is accepted as an id"
grep -q "generation_config.json': key 'eos_token_id': expected a whole number" out ||
    fail "a text as an id is refused with: $(cat out)"
echo "passed"
