#!/usr/bin/env bash
# Scoring continuations, and the perplexity of several texts and of corpora.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
# check PROGRAM: lines of `out` are the list o of JSON objects.
check() { python3 -c "
import json, math
o = [json.loads(line) for line in open('out')]
$1" || fail "$(cat out)"; }

for i in $(seq 200); do
    echo "line $((i % 7)): the cat sat on the mat — und die Bäume grün."
done >text.txt
head -n 20 text.txt >small.txt
"$KVSHIFT" tokenizer train text.txt --vocab 280 --special '<|endoftext|>' --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --valid 0.1 --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus --dim 32 --heads 4 --layers 1 --context 64 --batch 8 --steps 40 \
    --lr 4e-3 --out run --quiet >/dev/null

# Text, its ids, and one token at a time give the same scores.
"$KVSHIFT" score -m run --context 'the cat ' --continuation 'sat on' >out
check "
assert len(o) == 1 and o[0]['tokens'] == len(o[0]['ids']) == len(o[0]['logprobs']) >= 1
assert abs(sum(o[0]['logprobs']) - o[0]['sum']) < 1e-9 and o[0]['context_tokens'] >= 1"
cp out text
ids=$(python3 -c "import json; print(*json.load(open('text'))['ids'], sep=',')")
context=$("$KVSHIFT" tokenizer encode -t tok.json --text 'the cat' | tr ' ' ,)
"$KVSHIFT" score -m run --ids "$context" --continuation-ids "$ids" >out
cmp out text || fail "ids give different scores: $(cat out text)"
"$KVSHIFT" score -m run --context 'the cat' --continuation ' sat on' --step-by-step >out
check "
t = json.load(open('text'))
assert t['ids'] == o[0]['ids'] and max(abs(a - b) for a, b in zip(o[0]['logprobs'], t['logprobs'])) < 1e-5"

# JSON lines, from a file and from standard input; an empty context is BOS.
printf '%s\n' '{"context": "the cat ", "continuation": "sat on", "id": 7}' '' \
    "{\"ids\": [$context], \"continuation_ids\": [$ids]}" '{"continuation": "the cat"}' >lines
"$KVSHIFT" score -m run --file lines >out
check "
t = json.load(open('text'))
assert len(o) == 3 and o[0] == t and o[1] == t and o[2]['context_tokens'] == 1"
"$KVSHIFT" score -m run <lines >again
cmp out again || fail "standard input gives different scores"
"$KVSHIFT" score -m run --json <lines >again
cmp out again || fail "'--json' changes output that is always JSON"

# Perplexity reads compressed texts and JSON lines, as 'data build' does.
printf '{"body": %s}\n' "$(python3 -c 'import json; print(json.dumps(open("small.txt").read()))')" >small.jsonl
as_zst small.txt >small.txt.zst
cp small.txt.zst misnamed.txt
"$KVSHIFT" ppl -m run small.txt --json --quiet >ppl.json
for file in small.txt.zst small.jsonl; do
    "$KVSHIFT" ppl -m run "$file" --field body --json --quiet >again
    cmp again ppl.json || fail "ppl of '$file': $(cat again ppl.json)"
done
cat small.jsonl small.jsonl >both.jsonl
"$KVSHIFT" ppl -m run both.jsonl --field body --quiet | grep -q '^texts  *2,' || fail "two lines are two texts"
"$KVSHIFT" ppl -m run misnamed.txt 2>err && fail "compressed bytes are measured as text"
grep -q "'misnamed.txt' is a zstd file" err || fail "$(cat err)"
"$KVSHIFT" generate -m run -f misnamed.txt -n 1 2>err && fail "a compressed prompt is taken as text"
grep -q "'misnamed.txt' is a zstd file" err || fail "$(cat err)"

# The sum equals the loss of ppl for the same context.
"$KVSHIFT" tokenizer encode -t tok.json --no-special <small.txt | tr ' ' '\n' | head -n 60 >ids
"$KVSHIFT" tokenizer decode -t tok.json <ids >part
"$KVSHIFT" score -m run --ids "$(head -n 1 ids)" --continuation-ids "$(tail -n +2 ids | tr '\n' ,)" >out
"$KVSHIFT" ppl -m run part --window 64 --stride 64 --json --quiet >ppl.json
check "
p = json.load(open('ppl.json'))
assert o[0]['tokens'] == p['tokens'] and abs(o[0]['sum'] + p['loss'] * p['tokens']) < 1e-4"

# The divergence of a model from itself is 0; from its f16 version it is small.
"$KVSHIFT" convert run half.gguf --dtype f16 -t none >/dev/null 2>&1
"$KVSHIFT" ppl -m run part --against run --window 64 --json --quiet >ppl.json
"$KVSHIFT" ppl -m half.gguf -t tok.json part --against run --window 64 --json --quiet >half.json
check "
p = json.load(open('ppl.json')); h = json.load(open('half.json'))
assert abs(p['divergence']) < 1e-9 and p['same_best'] == 1 and p['reference_loss'] == p['loss']
assert 0 < h['divergence'] < 1e-3 and h['against'] == 'run'"
"$KVSHIFT" ppl -m run part --against run --window 64 --quiet | grep -q '^against  *run: loss +0.00000' ||
    fail "ppl --against"

# A line that cannot be scored ends the command; the results before it are printed.
for bad in '{"context": "x"}' '{"continuation": 3}' '[1]' '{"ids": [1], "continuation_ids": [1, "x"]}' \
    '{"ids": [1]}' '{"ids": [], "continuation_ids": [1]}' '{"ids": [1], "continuation_ids": [9999]}' \
    "{\"ids\": [$(seq -s, 1 70)], \"continuation_ids\": [1]}" '{"continuation": "x"'; do
    code=0
    { sed -n 1p lines; echo "$bad"; sed -n 1p lines; } | "$KVSHIFT" score -m run >out 2>err || code=$?
    [[ $code != 0 && $(wc -l <out) == 1 && $(wc -l <err) == 1 ]] || fail "'$bad': $code, $(cat err)"
    cmp -s out text || fail "'$bad' loses the results before it"
    grep -q 'line 2' err || fail "'$bad' prints: $(cat err)"
done
grep -q "71 tokens, the model takes at most 65" <(echo \
    "{\"ids\": [$(seq -s, 1 70)], \"continuation_ids\": [1]}" | "$KVSHIFT" score -m run 2>&1) ||
    fail "the error for a long input does not contain its length"

# --truncate scores the last 65 tokens; a continuation longer than the model is refused.
seq -s, 1 200 >many
"$KVSHIFT" score -m run --truncate --ids "$(cat many)" --continuation-ids 7,8,9 >out
"$KVSHIFT" score -m run --truncate --ids "$(seq -s, 139 200)" --continuation-ids 7,8,9 >again
"$KVSHIFT" score -m run --ids "$(seq -s, 139 200)" --continuation-ids 7,8,9 >plain
check "
again, plain = json.load(open('again')), json.load(open('plain'))
assert o[0].pop('dropped') == 138 and again.pop('dropped') == 0 and o[0] == again == plain
assert o[0]['context_tokens'] == 62 and o[0]['tokens'] == 3"
"$KVSHIFT" score -m run --truncate --ids 1 --continuation-ids "$(seq -s, 1 64)" >/dev/null ||
    fail "a continuation of all tokens that the model takes is refused"

# Perplexity of several files, and of a corpus's validation split.
"$KVSHIFT" ppl -m run small.txt small.txt --json --quiet >two.json
"$KVSHIFT" ppl -m run small.txt --json --quiet >one.json
"$KVSHIFT" ppl -m run --data corpus --json --quiet >data.json
"$KVSHIFT" data info corpus --json >info.json
python3 - <<'END' || fail "$(cat one.json two.json data.json)"
import json
one, two, data, info = (json.load(open(f"{n}.json")) for n in ("one", "two", "data", "info"))
assert two["tokens"] == 2 * one["tokens"] and two["bytes"] == 2 * one["bytes"] and two["texts"] == 2
assert abs(two["loss"] - one["loss"]) < 1e-9 and two["loss_error"] < one["loss_error"]
assert one["window"] == 64 and one["stride"] == 32 and 0.5 < one["scored_fraction"] < 0.7
assert len(one["checksum"]) == 16 and one["checksum"] != two["checksum"]
assert 0 < data["tokens"] and 0 < data["bits_per_byte"] < 8 and data["bits_per_byte_error"] > 0
END
"$KVSHIFT" ppl -m run small.txt --quiet >out
grep -q 'bits per byte' out && grep -q 'checksum' out || fail "$(cat out)"

refused() { # CODE TEXT ARGUMENT...
    local code=0
    "$KVSHIFT" "${@:3}" >out 2>err </dev/null || code=$?
    [[ $code == "$1" && $(wc -l <err) == 1 && ! -s out ]] || fail "'${*:3}' exits $code: $(cat err)"
    grep -qF -- "$2" err || fail "'${*:3}' prints: $(cat err)"
}
refused 2 "exclude each other" score -m run --context a --continuation b --ids 1
refused 2 "exclude each other" score -m run --continuation b --file lines
refused 2 "needs '--continuation'" score -m run --context a
refused 2 "needs '--continuation-ids'" score -m run --ids 1
refused 2 "the context is empty" score -m run --continuation-ids 1
refused 2 "neither BOS nor EOS" score -m run -t bytes --continuation a
refused 1 "nowhere" score -m run --file nowhere
refused 1 "the continuation has 65 tokens, expected at most 64" \
    score -m run --truncate --ids 1 --continuation-ids "$(seq -s, 1 65)"
refused 2 "expected FILE" ppl -m run
refused 2 "found both" ppl -m run text.txt --data corpus
refused 1 "nowhere" ppl -m run --data nowhere
echo "passed"
