#!/usr/bin/env bash
# Bad texts, corpora and tokenizers: one clear line each, nothing lost, nothing left behind.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# refused CODE TEXT ARGUMENT...: one line on standard error within a minute, no --out.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    timeout 60 "$KVSHIFT" "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -e new ]] || fail "'$*' leaves $(find new)"
}

size=(--dim 32 --heads 2 --layers 1 --context 64 --batch 4 --steps 2 --quiet)

# ---- texts ----

: >empty.txt
printf 'a' >one.txt
for i in $(seq 300); do echo "line $i of a text"; done >text.txt
refused 2 "'empty.txt' contains no text" data build empty.txt -t bytes --out new
refused 2 "the text has 1 token, expected at least 2" data build one.txt -t bytes --out new
printf 'ab' >two.txt
refused 2 "split has 1 token, expected a document of at least 2" data build two.txt -t bytes --out new

# Invalid UTF-8 is kept: the corpus equals the text byte for byte and can be trained on.
printf 'caf\xe9 \xff\xfe\x00 \xf0\x9f\x98 \xed\xa0\x80 end' >noise.txt
for i in $(seq 60); do cat noise.txt; done >noises.txt
"$KVSHIFT" data build noises.txt -t bytes --valid 0 --out noise --quiet >/dev/null
tokens=$(stat -c %s noises.txt)
od -An -v -tu2 -w2 -j64 -N$((2 * tokens)) noise/train-00000.shard >ids
"$KVSHIFT" tokenizer decode -t bytes <ids >back
cmp noises.txt back || fail "invalid UTF-8 is not restored"
"$KVSHIFT" tokenizer train noises.txt --vocab 270 --out noise.json >/dev/null 2>&1
"$KVSHIFT" tokenizer encode -t noise.json <noises.txt | "$KVSHIFT" tokenizer decode -t noise.json |
    cmp - noises.txt || fail "a trained tokenizer loses invalid UTF-8"

# ---- corpora ----

"$KVSHIFT" tokenizer train text.txt --vocab 280 --out tokenizer.json >/dev/null 2>&1
"$KVSHIFT" tokenizer train text.txt --vocab 270 --out other.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tokenizer.json --out corpus --quiet >/dev/null

# A validation split shorter than the context is used as one short window.
printf 'a text of its own' >short.txt
"$KVSHIFT" data build short.txt -t bytes --valid 0.3 --out short --quiet >/dev/null
"$KVSHIFT" train --data short "${size[@]}" >out
grep -q '^loss .* on 1 windows of the validation text' out || fail "a short split: $(cat out)"
"$KVSHIFT" data build text.txt -t bytes --valid 0 --out whole --quiet >/dev/null
refused 2 "'whole' has no validation split; training needs one" train --data whole "${size[@]}" --out new

cp -r corpus swapped
cp other.json swapped/tokenizer.json
refused 2 "the tokenizer differs from that of 'swapped': expected hash" \
    train --data swapped "${size[@]}" --out new
rm swapped/tokenizer.json
refused 1 "tokenizer.json" train --data swapped "${size[@]}" --out new

cp -r corpus patched
printf '\xff\xff' | dd of=patched/train-00000.shard bs=1 seek=80 conv=notrunc status=none
refused 1 "has id 65535" train --data patched "${size[@]}" --out new
refused 2 "the model's vocabulary is 100, the data needs" \
    train --data corpus --vocab 100 "${size[@]}" --out new
truncate -s -100 patched/train-00000.shard
refused 1 "patched/train-00000.shard" train --data patched "${size[@]}" --out new
echo '{' >patched/corpus.json
refused 1 "malformed JSON" train --data patched "${size[@]}" --out new

# ---- hostile tokenizers ----

# tokenizer VOCABULARY MERGES MORE: writes hostile.json, a BPE with these and more members.
tokenizer() {
    echo "{\"model\": {\"type\": \"BPE\", \"vocab\": $1, \"merges\": $2}$3}" >hostile.json
}
hostile() { # TEXT [INPUT]
    refused 1 "$1" tokenizer encode -t hostile.json --text "${2:-a}"
    refused 1 "$1" data build as.txt -t hostile.json --out new
}
many=$(printf 'a%.0s' $(seq 400))
echo "$many" >as.txt
nested() { head -c "$2" /dev/zero | tr '\0' "$1"; }

echo "{\"model\": $(nested '[' 100000)$(nested ']' 100000)}" >hostile.json
hostile "maximum parsing depth"
tokenizer '{"a": 1e999}' '[]' ''
hostile "real number overflow"
tokenizer '{"a": 99999999999999999999999}' '[]' ''
hostile "too big integer"
tokenizer '{"a": 0, "b": 2147483647}' '[]' ''
hostile "token 'b' has id 2147483647, expected at most"
tokenizer '{"a": 0, "b": -1}' '[]' ''
hostile "token 'b': expected a whole number"
tokenizer '{"a": 0, "b": 0}' '[]' ''
hostile "the id occurs twice"
tokenizer '{"a": 0}' '[]' ', "added_tokens": [{"id": 0, "content": "z"}]'
hostile "the id occurs twice"
tokenizer '{"a": 0}' '[]' ', "added_tokens": [{"id": 1099511627776, "content": "z"}]'
hostile "token 'z' has id 1099511627776, expected at most"
tokenizer '{"a": 0, "b": 1}' '["a b"]' ''
hostile "merge 0, of 'a' and 'b': the result is not in the vocabulary"
tokenizer '{"a": 0, "": 1}' '[["a", ""]]' '' # the merge gives one of its parts
hostile "merge 0: expected two tokens"
tokenizer '{"a": 0}' '["a"]' ''
hostile "merge 0: expected two tokens"
split='"type": "Split", "behavior": "Isolated", "pattern"'
tokenizer '{"a": 0}' '[]' ", \"pre_tokenizer\": {$split: {\"Regex\": \"((((\"}}"
hostile "expression '((((' is malformed"
tokenizer '{"a": 0}' '[]' ", \"pre_tokenizer\": {$split: {\"Regex\": \"(?:a|a)+[xy]\"}}"
hostile "steps per byte of the text" "$many"
step='{"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaaaa"}'
tokenizer '{"a": 0}' '[]' \
    ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [$step, $step, $step, $step, $step, $step]}"
hostile "the tokenizer makes the text more than 64 times as long" "$many"
echo "passed"
