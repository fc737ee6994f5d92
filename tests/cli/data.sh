#!/usr/bin/env bash
# kvshift data: build, info, check and their errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# Runs `kvshift data`; leaves its exit code in $code, its output in out and err.
run() {
    code=0
    "$KVSHIFT" data "$@" >out 2>err </dev/null || code=$?
}

passed() {
    run "$@"
    [[ $code == 0 ]] || fail "'$*' exits $code: $(cat err)"
}

# refused CODE TEXT ARGUMENT...: exactly one line on standard error, nothing on standard output.
refused() {
    local expected=$1 text=$2
    shift 2
    run "$@"
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 ]] || fail "'$*' prints more than one line: $(cat err)"
    [[ $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -s out ]] || fail "'$*' prints: $(cat out)"
}

has() {
    grep -Eq -- "$1" out || fail "'$1' is not in: $(cat out)"
}

# All ways to ask for help.
passed --help
has '^usage: kvshift data'
for verb in build info check; do
    passed "$verb" --help
    has "^usage: kvshift data $verb"
    ! grep -q '.\{101\}' out || fail "'$verb --help' has long lines"
done
refused 2 "did you mean 'data build'?" biuld
run
[[ $code == 2 ]] || fail "no verb exits $code"

# A corpus of one text and its description.
for i in $(seq 200); do echo "line $i of a text that is cut by position"; done >text.txt
passed build text.txt -t bytes --out new/corpus
has 'a single document: its last 5 % for validation'
[[ $(ls new) == corpus ]] || fail "left behind: $(ls new)"
cp out built
passed info new/corpus
cmp -s built out || fail "'build' and 'info' print different descriptions"
passed info new/corpus --json
has '"by": "position"'
has '"vocab": 256'
passed check new/corpus
has "is intact: 2 shards, $(wc -c <text.txt) tokens below 256"

# Documents, an environment variable, several files.
printf '{"body": "first"}\n{"body": "second"}\n{"body": "third"}\n' >lines.jsonl
KVSHIFT_SEED=7 passed build lines.jsonl text.txt --tokenizer bytes --field body --valid 0.5 --out two
has '50 % of the documents for validation, seed 7'
has '2 files'

# File name and compression do not change a text; without a separator it is one document.
cp text.txt text.md
as_zst text.txt >text.txt.zst
for file in text.md text.txt.zst; do
    passed build "$file" -t bytes --out "of-$file"
    cmp "of-$file/train-00000.shard" new/corpus/train-00000.shard ||
        fail "'$file' gives a different shard"
done
echo 'one<|endoftext|>two' >ends.txt
passed build ends.txt -t bytes --separator '' --valid 0.5 --out whole
has 'a single document'

# Windows line ends and byte-order marks are kept; one note reports them.
[[ ! -s err ]] || fail "an ordinary text causes a note: $(cat err)"
printf '\xef\xbb\xbfone\r\ntwo\r\n' >crlf.txt
passed build crlf.txt text.txt crlf.txt -t bytes --out crlf
[[ $(cat err) == "CRLF line ends in 2 of 3 files, a byte-order mark in 2 of 3 files; they are kept"* ]] ||
    fail "CRLF and BOM: $(cat err)"
tokens=$(awk '$1 == "train" || $1 == "valid" { n += $2 } END { print n }' out)
[[ $tokens == $((2 * $(wc -c <crlf.txt) + $(wc -c <text.txt))) ]] || fail "bytes were dropped: $tokens"

# The same input gives the same bytes.
passed build text.txt -t bytes --out again
cmp again/train-00000.shard new/corpus/train-00000.shard || fail "two builds differ"

# An existing corpus is kept unless --overwrite is given.
refused 2 "'new/corpus' already holds a corpus; --overwrite replaces it" \
    build text.txt -t bytes --out new/corpus
passed build text.txt -t bytes --out new/corpus/ --overwrite --valid 0.5
has 'its last 50 % for validation'
[[ $(ls new) == corpus ]] || fail "left behind: $(ls new)"

# Bad input: one line, and no file is created.
: >empty.txt
printf 'a' >one.txt
refused 2 "'empty.txt' contains no text" build empty.txt -t bytes --out bad/corpus
refused 2 "the text has 1 token, expected at least 2" build one.txt -t bytes --out bad/corpus
refused 2 "split has 1 token, expected a document" build one.txt one.txt -t bytes --out bad/corpus
refused 2 "option '--tokenizer' is required" build text.txt --out bad/corpus
refused 2 "option '--valid': expected a number from 0 to 0.9, found '2'" \
    build text.txt -t bytes --valid 2 --out bad/corpus
refused 2 "has no EOS token" build text.txt -t bytes --eos yes --out bad/corpus
printf '[{"text": "one"} {"text": "two"}]' >list.json
mkdir texts-none
printf '\x1f\x8b\x08\x00' >packed.txt
as_zst text.txt >zst.txt
refused 1 "'list.json' line 1: expected ',' or ']'" build list.json -t bytes --out bad/corpus
refused 1 "the folder 'texts-none' has no text" build texts-none -t bytes --out bad/corpus
refused 1 "the folder 'texts-none' is no corpus" info texts-none
refused 1 "'packed.txt' is compressed with gzip" build packed.txt -t bytes --out bad/corpus
refused 1 "'zst.txt' is a zstd file" build zst.txt -t bytes --out bad/corpus
refused 1 "cannot open 'nowhere.txt'" build nowhere.txt -t bytes --out bad/corpus
refused 1 "nowhere.json" build text.txt -t nowhere.json --out bad/corpus
refused 1 "line 1: no text in field 'text'" build lines.jsonl -t bytes --out bad/corpus
refused 1 "cannot open 'nowhere'" info nowhere
refused 1 "/proc/" build text.txt -t bytes --out /proc/kvshift/corpus
[[ ! -e bad ]] || fail "left behind: $(find bad)"

# A full disk, simulated by a limit of a few kilobytes on the file size.
code=0
(
    trap '' XFSZ
    ulimit -f 8
    exec "$KVSHIFT" data build text.txt -t bytes --out bad/corpus
) >/dev/null 2>full || code=$?
[[ $code == 1 && $(wc -l <full) == 1 && ! -e bad ]] || fail "a full disk: $code, $(cat full)"

# Damage is detected.
printf 'X' | dd of=again/train-00000.shard bs=1 seek=1000 conv=notrunc status=none
passed info again
refused 1 "train-00000.shard' is damaged: expected checksum" check again
truncate -s -1 again/train-00000.shard
refused 1 "do not fit" check again
refused 1 "do not fit" info again

# Token files of other programs, which do not store the vocabulary size.
printf '\001\000\002\000\003\000' >nano.bin
refused 2 "'nano.bin' is not a kvshift shard" info nano.bin
refused 1 "has id 3" info nano.bin --vocab 3
passed check nano.bin --vocab 4
has '1 shard, 3 tokens below 4; its format has no checksums'
passed info nano.bin --vocab 4
has '^format +nanoGPT, 16-bit ids'
# Standard input and pipes: text, JSON lines, an array, plain or compressed, as if they were files.
seq 3000 | sed 's/^/a text of many lines, number /' >piped.txt
sed 's/.*/{"text": "&"}/' piped.txt >piped.jsonl
{ echo '['; sed '$!s/$/,/' piped.jsonl; echo ']'; } >piped.json
gzip -k piped.txt piped.jsonl
for name in piped.txt piped.jsonl piped.json piped.txt.gz piped.jsonl.gz; do
    passed build "$name" -t bytes --out "$name.file" --quiet
    "$KVSHIFT" data build - -t bytes --out "$name.input" --quiet <"$name" >out 2>err ||
        fail "standard input, $name: $(cat err)"
    "$KVSHIFT" data build <(cat "$name") -t bytes --out "$name.pipe" --quiet >out 2>err ||
        fail "a pipe, $name: $(cat err)"
    for way in input pipe; do
        for split in train valid; do
            cmp "$name.file/$split-00000.shard" "$name.$way/$split-00000.shard" || fail "$name, $way"
        done
    done
    "$KVSHIFT" tokenizer train "$name" --vocab 270 --out "$name.tok" >out
    "$KVSHIFT" tokenizer train - --vocab 270 --out "$name.piped" <"$name" >out
    cmp "$name.tok" "$name.piped" || fail "the tokenizer of $name differs when it is piped"
done
grep -q '"piped input"' piped.txt.input/corpus.json || fail "$(cat piped.txt.input/corpus.json)"
printf '{not json\nbut text, and more of it\n%.0s' $(seq 20) >braces.txt
"$KVSHIFT" data build - -t bytes --out braces --quiet <braces.txt >out || fail "text that starts with a brace"
printf '{"text": "a"}\n{broken\n' | "$KVSHIFT" data build - -t bytes --out broken >out 2>err &&
    fail "a broken line is accepted"
[[ $(cat err) == "kvshift: 'piped input' line 2: "* ]] || fail "the message is $(cat err)"
[[ ! -e broken ]] || fail "half a corpus is left"
[[ -z $(find "${TMPDIR:-/tmp}" -maxdepth 1 -name 'kvshift-??????' -newer braces.txt) ]] || fail "copies are left"

# Results as JSON.
passed build piped.txt -t bytes --out json --quiet --json
has '"vocab": 256'
passed check json --json
has '"by": "position"'

echo "passed"
