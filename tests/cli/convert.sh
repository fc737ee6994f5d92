#!/usr/bin/env bash
# kvshift convert: output files, errors, and no leftover files.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# refused CODE TEXT ARGUMENT...: one line on standard error, nothing on standard output, no new file.
refused() {
    local expected=$1 text=$2 code=0 before
    shift 2
    before=$(ls -A | grep -v '^out$\|^err$')
    "$KVSHIFT" convert --quiet "$@" >out 2>err || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && ! -s out ]] || fail "'$*' prints: $(cat err out)"
    [[ $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
    [[ $(ls -A | grep -v '^out$\|^err$') == "$before" ]] || fail "'$*' left something: $(ls -A)"
}

convert() {
    "$KVSHIFT" convert --quiet "$@" >out 2>err || fail "'$*': $(cat err)"
    [[ ! -s out && ! -s err ]] || fail "'$*' prints: $(cat err out)"
}

small=(--dim 16 --heads 4 --kv-heads 2 --ffn 24 --layers 2 --vocab 300 --context 32)
plain=(--shift none --rope-base 10000)

# The same seed gives the same random weights in every format.
convert --random desk-1m plain "${small[@]}" "${plain[@]}" --seed 7
convert plain plain.gguf
convert plain.gguf plain.bin
convert plain.bin plain-v1.bin --format llama2c-v1
convert plain-v1.bin back
cmp plain/model.safetensors back/model.safetensors || fail "the round trip changed the weights"
convert --random desk-1m plain2.bin "${small[@]}" "${plain[@]}" --seed 7
cmp plain.bin plain2.bin || fail "the two formats contain different models"
[[ ! -e plain/modeling_kvshift.py ]] || fail "a plain model needs no Python file"

# A shifted model is never written with the architecture name llama.
convert --random desk-1m kv "${small[@]}" --shift kv
convert kv kv.gguf
convert kv.gguf kv-back
cmp kv/model.safetensors kv-back/model.safetensors ||
    fail "the round trip changed the weights of a shifted model"
grep -q '"targets": "kv"' kv-back/config.json || fail "the shift was lost"
cmp kv/modeling_kvshift.py kv-back/modeling_kvshift.py ||
    fail "the Python file is missing or different"
grep -qa kvshift kv.gguf || fail "a shifted model is not called kvshift"
refused 1 "format gguf-llama does not support shift kv" kv x.gguf --format gguf-llama
refused 1 "format llama2c does not support shifted" kv x.bin
refused 2 "option '--body' is gpt2, but 'desk-1m' has llama" --random desk-1m x --body gpt2
echo '{"model_type": "gpt2", "vocab_size": 9, "n_embd": 8, "n_layer": 1, "n_head": 2}' >gpt2.json
refused 1 "format gguf does not support GPT-2's body" --random ./gpt2.json x.gguf
convert --random ./gpt2.json gpt2
convert --random ./gpt2.json gpt2-kv --kv-heads 1 # heads of a configuration that is complete can be changed

# Types and shards.
convert kv half --dtype bf16
[[ $(stat -c %s half/model.safetensors) -lt $(stat -c %s kv/model.safetensors) ]] ||
    fail "16-bit weights are not smaller"
convert half again --dtype f32
convert again half2 --dtype bf16
cmp half/model.safetensors half2/model.safetensors || fail "bf16 does not survive f32"
convert kv shards --shard-size 10KB
[[ -e shards/model.safetensors.index.json && -e shards/model-00001-of-00004.safetensors ]] ||
    fail "no shards: $(ls shards)"
convert shards whole
cmp kv/model.safetensors whole/model.safetensors || fail "shards do not add up"

# Quantized blocks: smaller files, GGUF only; tensors that cannot be quantized are reported.
blocks=(--dim 64 --heads 4 --kv-heads 2 --ffn 96 --layers 2 --vocab 300 --context 32)
convert --random desk-1m blocks "${blocks[@]}" --shift kv
convert blocks blocks-f16.gguf --dtype f16
convert blocks blocks-q8.gguf --dtype q8_0
convert --random desk-1m blocks-q4.gguf "${blocks[@]}" --shift kv --dtype q4_0
bytes() { stat -c %s "$1"; }
[[ $(bytes blocks-q8.gguf) -lt $(($(bytes blocks-f16.gguf) * 6 / 10)) ]] || fail "q8_0 is not small"
[[ $(bytes blocks-q4.gguf) -lt $(($(bytes blocks-f16.gguf) * 4 / 10)) ]] || fail "q4_0 is not small"
"$KVSHIFT" inspect blocks-q4.gguf --json | grep -q '"dtype": "Q4_0"' || fail "no Q4_0"
"$KVSHIFT" generate -m blocks-q4.gguf --ids 1,2,3 -n 4 >out || fail "q4_0 does not run"
refused 2 "dtype is q8_0, but format hf has f32, f16 and bf16 only" blocks x --dtype q8_0
refused 2 "dtype is q4_0, but format llama2c has f32 only" plain x.bin --dtype q4_0
"$KVSHIFT" convert kv mixed.gguf --dtype q8_0 2>err >out
[[ $(cat err) == "16 of 25 tensors are F16, because their rows are not whole blocks of 32"* ]] ||
    fail "rows of 16 as q8_0: $(cat err)"

# The tokenizer is kept in every format that can hold it.
printf 'the cat sat on the mat, the cat sat, the mat' >text
"$KVSHIFT" tokenizer train --vocab 260 --out tokenizer.json text >/dev/null
convert kv with -t tokenizer.json
convert with with.gguf
convert with.gguf with-back
"$KVSHIFT" tokenizer encode -t tokenizer.json <text >expected
for holder in with with.gguf with-back; do
    "$KVSHIFT" tokenizer encode -t "$holder" <text | cmp -s - expected ||
        fail "'$holder' lost the tokenizer"
done
[[ -e with/tokenizer_config.json ]] || fail "no tokenizer_config.json"
convert with without -t none
[[ ! -e without/tokenizer.json ]] || fail "an unwanted tokenizer was written"
refused 2 "the tokenizer has 260 tokens, the model 9" --random desk-1m x --vocab 9 -t tokenizer.json
refused 2 "does not support a tokenizer" plain x.bin -t tokenizer.json

# Ids of special tokens, the chat template and all tokenizer files but the class are kept unchanged.
cp -r with hub
sed -i 's/"eos_token_id": null/"eos_token_id": [7, 3, 9, 11], "pad_token_id": 5/; s/"bos_token_id": null/"bos_token_id": 4/' \
    hub/config.json
grep -q '"eos_token_id": \[7, 3, 9, 11\]' hub/config.json ||
    fail "unexpected config.json: $(cat hub/config.json)"
echo '{"eos_token_id": [7, 3, 9, 11]}' >hub/generation_config.json
echo '{{ messages }}' >hub/chat_template.jinja
for name in added_tokens special_tokens_map vocab; do echo '{}' >hub/$name.json; done
echo '#version: 0.2' >hub/merges.txt
printf '{"auto_map": {"AutoTokenizer": ["tokenization_own.Own", null], "AutoModel": "modeling_gone.Gone", "AutoConfig": "../evil.Evil", "AutoImage": "linked.Linked", "AutoHub": "me/it--their.Their"}, "tokenizer_class": "Own", "model_max_length": 1000000000000000019884624838656}' \
    >hub/tokenizer_config.json
printf 'from .configuration_own import Settings\nfrom .linked import secret\n' >hub/tokenization_own.py
echo 'from .tokenization_own import Own' >hub/configuration_own.py
echo 'secret' >evil.py
ln -s ../evil.py hub/linked.py
convert hub hub-out
for name in generation_config.json chat_template.jinja added_tokens.json special_tokens_map.json \
    vocab.json merges.txt tokenization_own.py configuration_own.py tokenizer.json; do
    cmp hub/$name hub-out/$name || fail "$name has changed"
done
[[ ! -e hub-out/linked.py && ! -e hub-out/evil.py ]] ||
    fail "a file outside the folder was copied: $(ls hub-out)"
tr -d ' \n' <hub-out/tokenizer_config.json >settings
grep -q '"auto_map":{"AutoTokenizer":\["tokenization_own.Own",null\],"AutoHub":"me/it--their.Their"}' settings ||
    fail "references: $(cat settings)"
tr -d ' \n' <hub-out/config.json >settings
grep -q '"bos_token_id":4,"eos_token_id":\[7,3,9,11\],"pad_token_id":5' settings || fail "ids: $(cat settings)"
convert hub hub.gguf
convert hub.gguf hub2.gguf --dtype f16
convert hub2.gguf hub-back
tr -d ' \n' <hub-back/config.json >settings
grep -q '"bos_token_id":4,"eos_token_id":\[7,3,9,11\],"pad_token_id":5' settings || fail "GGUF lost ids: $(cat settings)"
grep -q '"chat_template": "{{ messages }}' hub-back/tokenizer_config.json || fail "GGUF lost the chat template"
rm hub/tokenization_own.py
convert hub hub-out --overwrite
grep -q '"tokenizer_class": "PreTrainedTokenizerFast"' hub-out/tokenizer_config.json ||
    fail "a tokenizer class without its file"
for settings in '{"tokenizer_class": "LlamaTokenizer", "model_max_length": 7}' '{"model_max_length": 7}'; do
    echo "$settings" >hub/tokenizer_config.json # transformers 5 changes what such a class reads
    convert hub hub-out --overwrite
    tr -d ' \n' <hub-out/tokenizer_config.json >settings
    grep -q '"model_max_length":7' settings && grep -q '"tokenizer_class":"PreTrainedTokenizerFast"' settings ||
        fail "tokenizer class: $(cat settings)"
done
convert hub hub-other -t tokenizer.json # ids of the input do not apply to another tokenizer
[[ ! -e hub-other/generation_config.json && ! -e hub-other/chat_template.jinja ]] ||
    fail "files of the old tokenizer were copied"
grep -q '"eos_token_id": null' hub-other/config.json || fail "ids of the old tokenizer were copied"
mkfifo hub/added_tokens.json.pipe && mv hub/added_tokens.json.pipe hub/added_tokens.json
refused 1 "added_tokens.json': not a regular file" hub x

# Existing output is kept unless --overwrite is given.
refused 2 "'kv.gguf' already exists; --overwrite replaces it" plain kv.gguf
refused 2 "'kv' already holds a model; --overwrite replaces it" plain kv
convert plain kv.gguf --overwrite
convert plain kv-back --overwrite
[[ ! -e kv-back/modeling_kvshift.py ]] || fail "files of the old folder are still there"
refused 2 "'plain' is the input" plain plain --overwrite
refused 2 "'./plain.gguf' is the input" plain.gguf ./plain.gguf --overwrite

# Wrong arguments.
refused 2 "option '--random' takes no model, found 'plain'" plain x --random desk-1m
refused 2 "expected IN and OUT, found only 'x'" x
refused 2 "option '--shift' needs '--random'" plain x --shift kv
refused 2 "option '--shard-size': expected a size such as 500MB, found '5 apples'" \
    plain x --shard-size '5 apples'
refused 2 "format llama2c has f32 only" plain x.bin --dtype f16
refused 2 "did you mean 'desk-1m'?" --random desk-1n x
refused 1 "cannot open 'nothing'" nothing x
"$KVSHIFT" convert --help | grep -q -- '--shard-size SIZE' || fail "no help"

# After a signal no output and no partial file is left.
"$KVSHIFT" convert --random desk-110m large --quiet 2>err &
job=$!
for _ in $(seq 100); do
    compgen -G 'large.tmp-*/model*' >/dev/null && break
    sleep 0.1
done
kill -TERM $job
code=0
wait $job || code=$?
[[ $code == 143 ]] || fail "SIGTERM gives $code, expected 143: $(cat err)"
[[ -z $(ls -d large* 2>/dev/null) ]] || fail "left behind: $(ls -d large*)"
