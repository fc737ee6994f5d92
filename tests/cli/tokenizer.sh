#!/usr/bin/env bash
# kvshift tokenizer: training, encoding and decoding, and errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# refused CODE TEXT ARGUMENT...: exactly one line on standard error, nothing on standard output.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    "$KVSHIFT" tokenizer "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -s out ]] || fail "'$*' prints: $(cat out)"
}

# equal WHAT EXPECTED FOUND
equal() { [[ $2 == "$3" ]] || fail "$1: expected '$2', found '$3'"; }

t=("$KVSHIFT" tokenizer)

# Bytes need no file.
equal "bytes" "104 105 10" "$(echo hi | "${t[@]}" encode -t bytes)"
equal "--text" "104 105" "$("${t[@]}" encode -t bytes --text hi)"
equal "no text" "" "$("${t[@]}" encode -t bytes </dev/null)"
equal "decode arguments" "hi" "$("${t[@]}" decode -t bytes 104 105)"
equal "decode input" "hi" "$(echo "104, 105" | "${t[@]}" decode -t bytes)"

# Training: special tokens first, in the order given, then bytes, then merges.  The number of
# threads does not change the result, and decoding restores any text.
for i in 1 2 3 4 5 6 7 8; do echo "low lower lowest<end>newer wider new"; done >text
"${t[@]}" train text --vocab 262 --out a.json --special '<end>' --special '<pad>' --threads 1 >out
grep -q '262 tokens' out || fail "train prints: $(cat out)"
"${t[@]}" train text --vocab 262 --out b.json --special '<end>' --special='<pad>' --threads 2 >out
cmp a.json b.json || fail "two threads give a different tokenizer"
equal "special tokens" "0 1 0" "$("${t[@]}" encode -t a.json --text '<end><pad><end>')"
"${t[@]}" encode -t a.json <text >ids
"${t[@]}" decode -t a.json <ids | cmp - text || fail "the text is not restored"
[[ $(wc -w <ids) -lt $(wc -c <text) ]] || fail "nothing was merged"
head -c 3000 /dev/urandom >noise
"${t[@]}" encode -t a.json <noise | "${t[@]}" decode -t a.json | cmp - noise ||
    fail "random bytes are not restored"
"${t[@]}" train text --vocab 5000 --out c.json >out 2>err
grep -q 'no pairs left to merge' err || fail "a small text gives 5000 tokens"

# The same text in every form gives the same tokenizer; field and separator are those of 'data build'.
printf 'low lower lowest\nnewer newest wider\n' >plain.txt
as_zst plain.txt >plain.txt.zst
printf '{"n": 1, "text": "low lower lowest\\nnewer newest wider\\n"}\n' >plain.jsonl
as_zst plain.jsonl >plain.jsonl.zst
printf '{"body": "low lower lowest\\nnewer newest wider\\n"}\n' >body.jsonl
printf '==low lower lowest\nnewer newest wider\n==' >marks.txt
"${t[@]}" train plain.txt --vocab 270 --out plain.json >out
for file in plain.txt.zst plain.jsonl plain.jsonl.zst body.jsonl marks.txt; do
    "${t[@]}" train "$file" --vocab 270 --separator == --field "$(basename "${file/plain*/text}" .jsonl)" \
        --out same.json >out || fail "'$file'"
    cmp same.json plain.json || fail "'$file' gives another tokenizer than the plain text"
    rm same.json
done
refused 1 "line 1: no text in field 'text'" train body.jsonl --vocab 270 --out x.json
cp plain.txt.zst misnamed.txt
refused 1 "is a zstd file: expected a name that ends in .zst" train misnamed.txt --vocab 270 --out x.json

# Info and JSON.
"${t[@]}" info -t a.json >out
grep -q 'tokens *262' out || fail "info prints: $(cat out)"
"${t[@]}" info -t a.json --json >out
grep -q '"vocab": 262' out && grep -q '"hash": "' out || fail "info --json prints: $(cat out)"
"${t[@]}" encode -t bytes --text hi --json >out
grep -q '"count": 2' out || fail "encode --json prints: $(cat out)"

# Help.
"${t[@]}" --help | grep -q '^usage: kvshift tokenizer' || fail "no help"
for verb in encode decode info train; do
    "${t[@]}" "$verb" --help >out
    grep -q "^usage: kvshift tokenizer $verb" out || fail "no help of '$verb'"
    ! grep -q '.\{101\}' out || fail "'$verb --help' has long lines"
done

# Wrong arguments and bad files.
echo '{"model": {"vocab": {"a": 0}}, "normalizer": {"type": "Odd"}}' >odd.json
head -c 100 a.json >cut.json
: >empty
refused 2 "did you mean 'tokenizer encode'?" encoed
refused 2 "'--tokenizer' is required" encode
refused 2 "expected at least 1 FILE" train --out x.json
refused 2 "expected 258" train text --vocab 257 --special a --special b --out x.json
refused 2 "is given twice" train text --vocab 300 --special a --special a --out x.json
refused 2 "not in the vocabulary" decode -t bytes 256
refused 2 "expected token ids, found '-3'" decode -t bytes -- -3
refused 2 "expected token ids, found '1x'" decode -t bytes 1x
refused 1 "'nowhere'" encode -t nowhere
refused 1 "normalizer 'Odd' is not supported" encode -t odd.json
refused 1 "malformed JSON" info -t cut.json
refused 1 "is not a tokenizer" info -t empty
refused 1 "no tokenizer in" info -t /
refused 1 "'nowhere'" train nowhere --vocab 300 --out x.json
[[ ! -e x.json ]] || fail "a failed training leaves a file"
echo "passed"
