#!/usr/bin/env bash
# Configuration files: precedence, errors, and that a file is enough to repeat a run.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
examples=$(cd "$here/../../examples/configs" && pwd)

# value KEY OPTION...: value and source of a key in the output of 'train --print-config'.
value() {
    local key=$1
    shift
    "$KVSHIFT" train "$@" --print-config | sed -n "s/^$key = \(.*[^ ]\)  *# \(.*\)\$/\1 from \2/p"
}

# is EXPECTED KEY OPTION...
is() {
    local expected=$1 found
    shift
    found=$(value "$@")
    [[ $found == "$expected" ]] || fail "'$*': expected $expected, found $found"
}

# refused CODE TEXT OPTION...: one line on standard error, nothing else, nothing left behind.
refused() {
    local expected=$1 text=$2 code=0 before
    shift 2
    before=$(ls)
    "$KVSHIFT" train "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ ! -s out ]] || fail "'$*' prints: $(cat out)"
    rm out err
    [[ $(ls) == "$before" ]] || fail "'$*' leaves $(ls)"
}

# Precedence: default < preset < file < environment < command line.
cat >run.toml <<'END'
model = "desk-1m"
[training]
lr = 1e-3
steps = 20
[model]
dim = 64
END
is '1000 from default' steps
is '16 from preset desk-1m' batch --config run.toml
is '0.001 from file run.toml:3' lr --config run.toml
is '64 from file run.toml:6' dim --config run.toml
is '4 from preset desk-1m' layers --config run.toml
is '"desk-1m" from file run.toml:1' model --config run.toml
is '30 from command line' steps --config run.toml --steps 30
KVSHIFT_STEPS=25 is '25 from environment KVSHIFT_STEPS' steps --config run.toml
KVSHIFT_STEPS=25 is '30 from command line' steps --config run.toml --steps 30
KVSHIFT_CONFIG=run.toml is '20 from file run.toml:4' steps
is '6 from preset desk-10m' layers --config run.toml --model desk-10m
is '"gate" from command line' shift-form --shift gate
# A preset sets a micro-batch; another batch size gives a micro-batch that is not larger.
is '240 from preset paper-19b' accumulate --model paper-19b
is '60 from computed from other settings' accumulate --model paper-19b --batch 60
is '5 from computed from other settings' accumulate --model paper-1.5b --batch 10
is '2 from command line' accumulate --model paper-1.5b --batch 10 --accumulate 2

# A task and a text exclude each other, unless they come from sources of different precedence.
echo 'task = "ngram"' >task.toml
echo 'data = "nowhere"' >data.toml
is '"induction" from default' task --config task.toml --data nowhere
is '"nowhere" from file data.toml:1' data --config data.toml
[[ -z $(value data --config data.toml --task ngram) ]] || fail "--task does not win over the file"
refused 2 "exclude each other" --task ngram --data nowhere
printf 'task = "ngram"\ndata = "nowhere"\n' >both.toml
refused 2 "exclude each other" --config both.toml
printf 'task = "ngram"\npool = 64\n' >foreign.toml
refused 2 "option '--pool' is for task induction" --config foreign.toml

# JSON gives the same settings as TOML.
cat >run.json <<'END'
{"model": "desk-1m",
 "training": {"lr": 1e-3, "steps": 20},
 "dim": 64}
END
"$KVSHIFT" train --config run.toml --print-config | sed 's/ *#.*//' >from-toml
"$KVSHIFT" train --config run.json --print-config | sed 's/ *#.*//' >from-json
cmp from-toml from-json || fail "TOML and JSON differ"
is '0.001 from file run.json:2' lr --config run.json

# The printed configuration, read as a file, gives the same configuration and prints itself.
again() { # OPTION...
    "$KVSHIFT" train "$@" --print-config >once.toml
    "$KVSHIFT" train --config once.toml --print-config >twice.toml
    diff <(sed 's/ *#.*//' once.toml) <(sed 's/ *#.*//' twice.toml) ||
        fail "'$*' gives a different configuration when read back"
    cp twice.toml once.toml
    "$KVSHIFT" train --config once.toml --print-config >twice.toml
    cmp once.toml twice.toml || fail "'$*' is not stable"
}
again
again --config run.toml --seed 7 --out 'it'\''s "one" \ é'
again --task ngram --alphabet 6 --pairs 20
again --data 'some where' --model desk-3m --dropout 0.1 --resume auto
again --body gpt2 --shift smear --dropout-attention 0.5 --sliding-window 4 --sliding-layers 0
again --positions alibi --slopes 0.1,0.2,0.3,0.30000000000000004 --lr 0.12345678901234567
again --shift-form hard --rotary-fraction 0.5 --tied --json --quiet --dry-run --cpu-level reference

# Errors name the file and the line.
wrong() { # CODE TEXT LINE...
    local code=$1 text=$2
    printf '%s\n' "${@:3}" >wrong.toml
    refused "$code" "wrong.toml:$text" --config wrong.toml --out new
}
wrong 2 "2: unknown key 'stpes'; did you mean 'steps'?" '' 'stpes = 5'
wrong 2 "1: unknown section 'trainig'; did you mean 'training'?" '[trainig]' 'steps = 5'
wrong 2 "2: key 'steps' is already on line 1" 'steps = 5' 'steps = 5'
wrong 2 "2: key 'steps': expected in section 'training', found in section 'model'" \
    '[model]' 'steps = 5'
wrong 2 "1: key 'steps': expected a whole number of at least 1, found '0'" 'steps = 0'
wrong 2 "1: key 'steps': expected a whole number, found the text '5'" 'steps = "5"'
wrong 2 "1: key 'shift': expected none, k, v, kv, qkv, gate, clamp or smear, found 'vk'" \
    'shift = "vk"'
wrong 2 "1: key 'tied': expected true or false, found 1" 'tied = 1'
wrong 2 "1: key 'slopes': expected an array of numbers, found 1" 'slopes = 1'
wrong 2 "1: key 'config' is not allowed in a file" 'config = "other.toml"'
wrong 2 "1: key 'print-config' is not allowed in a file" 'print-config = "values"'
wrong 1 "1: expected =, found the end of the line" 'steps'
wrong 1 "1: expected a number" 'steps = five'
refused 2 "'--config' is given twice" --config run.toml --config run.toml
refused 2 "option '--config' needs a value FILE" --config
refused 1 "nowhere.toml" --config nowhere.toml
refused 2 "did you mean '--print-config'" --print-confg
refused 2 "unknown preset 'desk-2m'" --model desk-2m --print-config
refused 2 "expected paper-1.5b, paper-2.9b" --model list --print-config

# The list of presets has a line for each, and the numbers that training uses.
"$KVSHIFT" config presets >presets.txt
[[ $(tail -n +2 presets.txt | wc -l) -eq $("$KVSHIFT" config presets --json | grep -c '"name"') ]] ||
    fail "config presets: text and JSON have another number of presets"
"$KVSHIFT" train --model desk-3m --print-config >preset.toml
for line in 'dim = 192' 'vocab = 4096' 'batch = 32'; do
    grep -q "^$line" preset.toml || fail "desk-3m: no '$line' in $(cat preset.toml)"
done
grep -Eq '^desk-3m +3\.34M +4 +192 +6 +6 +256 +4096 +32 +1000 +8\.19M +0\.0015 ' presets.txt ||
    fail "config presets: $(grep desk-3m presets.txt)"
printf '{"steps": 5,\n "stpes": 5}' >wrong.json
refused 2 "wrong.json:2: unknown key 'stpes'; did you mean 'steps'?" --config wrong.json
printf '{"steps": 5,\n' >wrong.json
refused 1 "malformed JSON at line" --config wrong.json
head -c 20 /dev/zero >wrong.toml
refused 1 "wrong.toml:1: expected text, found byte 0x00" --config wrong.toml

# A file gives the same weights, bit for bit, as the options.
small=(--dim 32 --heads 2 --vocab 64 --pool 32 --max-length 32 --batch 8 --eval-sequences 16
    --steps 6 --seed 5 --quiet)
"$KVSHIFT" train "${small[@]}" --out flags >/dev/null
"$KVSHIFT" train "${small[@]}" --print-config >small.toml
"$KVSHIFT" train --config small.toml --out file >/dev/null
cmp flags/model.safetensors file/model.safetensors ||
    fail "a file gives different weights than options"

# The run folder contains what is needed to repeat the run.
for file in config.resolved.toml command.txt env.json; do
    [[ -s flags/$file ]] || fail "no $file"
done
[[ $(cat flags/command.txt) == *" train --dim 32 "*" --out flags" ]] || fail "$(cat flags/command.txt)"
grep -q '^kv-heads = 2 .*# computed from other settings' flags/config.resolved.toml ||
    fail "$(grep kv-heads flags/config.resolved.toml)"
for key in version commit compiler blas threads cpu_level processor started; do
    grep -q "\"$key\": " flags/env.json || fail "env.json lacks '$key'"
done
"$KVSHIFT" train --config flags/config.resolved.toml --out third >/dev/null
cmp flags/model.safetensors third/model.safetensors ||
    fail "config.resolved.toml gives different weights"

# A resumed run keeps its newest settings and all command lines; the settings do not contain resume.
"$KVSHIFT" train "${small[@]}" --steps 4 --checkpoint-every 2 --out on >/dev/null
"$KVSHIFT" train "${small[@]}" --checkpoint-every 2 --out on --resume >/dev/null
cmp flags/model.safetensors on/model.safetensors || fail "a resumed run has different weights"
[[ $(wc -l <on/command.txt) == 2 ]] || fail "on/command.txt: $(cat on/command.txt)"
grep -q '^steps = 6 ' on/config.resolved.toml || fail "the settings are not those of the resumed run"
grep -q '^# resume is not set' on/config.resolved.toml || fail "the settings contain resume"
"$KVSHIFT" train --config on/config.resolved.toml --out fourth >/dev/null
cmp flags/model.safetensors fourth/model.safetensors ||
    fail "the resolved settings of a resumed run give different weights"

# A run that is refused does not overwrite files of the run folder.
cp flags/config.resolved.toml kept
code=0
"$KVSHIFT" train "${small[@]}" --steps 9 --out flags >/dev/null 2>&1 || code=$?
[[ $code == 1 ]] && cmp kept flags/config.resolved.toml ||
    fail "a refused run overwrote the settings"

# With --init-from, the options of the model are shown as comments, also if a shift is added.
"$KVSHIFT" train "${small[@]}" --shift none --out plain >/dev/null
"$KVSHIFT" train --init-from plain --pool 32 --max-length 32 --print-config >model.toml
grep -q '^# dim = 32 .*# model plain$' model.toml || fail "$(grep dim model.toml)"
"$KVSHIFT" train --init-from plain --retrofit kv --pool 32 --max-length 32 --batch 8 --steps 2 \
    --eval-sequences 16 --out shifted --quiet >/dev/null
grep -q '^# shift = kv .*# model plain$' shifted/config.resolved.toml ||
    fail "$(grep shift shifted/config.resolved.toml)"
"$KVSHIFT" train --config shifted/config.resolved.toml --out shifted-again >/dev/null
cmp shifted/model.safetensors shifted-again/model.safetensors || fail "a retrofit cannot be repeated"
refused 2 "option '--dim' is 64, but the model in 'plain' has 32" --init-from plain --dim 64 \
    --print-config

# Text: settings that depend on the corpus are computed and recorded in the resolved settings.
for ((i = 0; i < 200; i++)); do echo "line $i of a text that says $((i * i)) and no more"; done >text.txt
"$KVSHIFT" data build text.txt -t bytes --out corpus >/dev/null 2>&1
cat >text.toml <<'END'
[start-from]
model = "desk-1m"
[model]
dim = 32
layers = 1
context = 32
[task]
data = "corpus"
[training]
batch = 2
steps = 2
[run]
quiet = true
END
"$KVSHIFT" train --config text.toml --print-config >shown.toml
grep -q '^# vocab is computed' shown.toml || fail "$(grep vocab shown.toml)"
grep -q '^# eval-sequences is computed' shown.toml || fail "$(grep eval shown.toml)"
grep -q '^# eval-every is computed' shown.toml || fail "$(grep eval shown.toml)"
"$KVSHIFT" train --config text.toml --out text >/dev/null
"$KVSHIFT" train --config shown.toml --out text-shown >/dev/null
"$KVSHIFT" train --config text/config.resolved.toml --out text-resolved >/dev/null
cmp text/model.safetensors text-shown/model.safetensors ||
    fail "the printed configuration gives different weights for text"
cmp text/model.safetensors text-resolved/model.safetensors ||
    fail "the resolved settings give different weights for text"
grep -q '^vocab = 256 .*# computed from other settings' text/config.resolved.toml ||
    fail "$(grep vocab text/config.resolved.toml)"

# Other commands read configuration files too.
echo 'new-tokens = 5' >generate.toml
"$KVSHIFT" generate -m text --config generate.toml --ids 1,2 >out || fail "generate from a file"
"$KVSHIFT" generate --config generate.toml --print-config >out
grep -q '^new-tokens = 5 ' out ||
    fail "generate --print-config"
printf 'tokenizer = "bytes"\nout = "corpus-2"\n' >build.json.toml
"$KVSHIFT" data build --config build.json.toml text.txt >/dev/null 2>&1
cmp corpus/corpus.json corpus-2/corpus.json || fail "data build from a file"
"$KVSHIFT" data build --print-config >out
grep -q '^# tokenizer is not set' out || fail "data build"
"$KVSHIFT" ppl --print-config >out
grep -q '^\[' out || fail "ppl --print-config"

# The reference contains every key once with its default and equals the output of the command.
"$KVSHIFT" train --print-config explained | diff "$examples/reference.toml" - ||
    fail "update it: kvshift train --print-config explained >examples/configs/reference.toml"
"$KVSHIFT" train --print-config | sed -n 's/^\(# \)\{0,1\}\([a-z0-9-]*\) \(=\|is not set\|is computed\).*/\2/p' |
    sort >all-keys
sed -n 's/^\(# \)\{0,1\}\([a-z0-9-]*\) = .*/\2/p' "$examples/reference.toml" | sort >its-keys
[[ $(wc -l <all-keys) -gt 60 ]] || fail "only $(wc -l <all-keys) keys"
diff all-keys its-keys || fail "reference.toml does not name every key once"
[[ -z $(uniq -d its-keys) ]] || fail "reference.toml repeats $(uniq -d its-keys)"
"$KVSHIFT" train --config "$examples/reference.toml" --print-config | sed 's/ *#.*//' >from-reference
"$KVSHIFT" train --print-config | sed 's/ *#.*//' >defaults
diff defaults from-reference || fail "reference.toml does not hold the defaults"

# The other examples are valid and give a plan.
for example in "$examples"/*.toml; do
    "$KVSHIFT" train --config "$example" --print-config >out || fail "$example"
    if grep -q '^data = ' "$example"; then
        "$KVSHIFT" train --config "$example" --data corpus --dry-run >out || fail "$example has no plan"
    else
        "$KVSHIFT" train --config "$example" --dry-run >out || fail "$example has no plan"
    fi
    grep -q '^  total ' out || fail "$example: $(cat out)"
done
# The example that spells out a preset equals the preset.
"$KVSHIFT" train --model paper-2.9b --print-config | sed 's/ *#.*//' >from-preset
"$KVSHIFT" train --config "$examples/paper-2.9b.toml" --print-config | sed 's/ *#.*//' >written-out
diff from-preset written-out || fail "paper-2.9b.toml is not the preset"
# Python's TOML parser reads the files.
if python3 -c 'import tomllib' 2>/dev/null; then
    python3 - "$examples"/*.toml once.toml text/config.resolved.toml <<'END' || fail "not TOML"
import sys, tomllib
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        tomllib.load(file)
END
fi

# The schema is valid JSON with every key, for each command that reads configuration files.
"$KVSHIFT" config schema >schema.json
while read -r key; do
    grep -q "\"$key\": {" schema.json || fail "the schema lacks $key"
done <all-keys
"$KVSHIFT" config schema data build >out
grep -q '"title": "kvshift data build"' out || fail "schema of data"
"$KVSHIFT" config schema generate >out
grep -q '"top-k": {' out || fail "schema of generate"
code=0
"$KVSHIFT" config schema trian >out 2>err || code=$?
[[ $code == 2 ]] && grep -q "did you mean 'train'" err || fail "config schema trian: $(cat err)"
code=0
"$KVSHIFT" config schema data build more >out 2>err || code=$?
[[ $code == 2 && ! -s out ]] && grep -q "unexpected argument 'more'" err || fail "$(cat out err)"
"$KVSHIFT" config schema --help >out
grep -q '^usage: kvshift config schema ' out || fail "config schema --help: $(cat out)"
code=0
"$KVSHIFT" config schema version >out 2>err || code=$?
[[ $code == 2 && $(wc -l <err) == 1 ]] || fail "config schema version: $(cat err)"
[[ -z $(find . -name '*.tmp-*') ]] || fail "temporary files are left"
echo "passed"
