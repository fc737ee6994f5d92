#!/usr/bin/env bash
# script/pt2safetensors converts PyTorch files to safetensors files that the command reads.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
script=$(cd "$here/../../script" && pwd)/pt2safetensors
python=
for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import torch' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [[ -z $python ]]; then
    echo "skipped: no Python with the module 'torch'"
    exit 77
fi

refused() { # TEXT ARGUMENT...
    local text=$1
    shift
    ! "$python" "$script" "$@" >out 2>err || fail "'$*' is not refused"
    [[ $(wc -l <err) == 1 && $(cat err) == "pt2safetensors: "*"$text"* ]] || fail "'$*': $(cat err)"
}

# One file and shards give the same model; types are kept, shared tensors are written twice.
"$KVSHIFT" convert --random desk-1m model --dim 16 --heads 2 --kv-heads 2 --layers 2 --vocab 30 \
    --dtype bf16
"$python" - <<'PYTHON'
import collections, json, os, shutil, struct, torch

content = open("model/model.safetensors", "rb").read()
size = struct.unpack_from("<Q", content)[0]
header = json.loads(content[8:8 + size])
types = {"F32": torch.float32, "BF16": torch.bfloat16}
tensors = {}
for name, entry in header.items():
    if name != "__metadata__":
        start, end = (8 + size + at for at in entry["data_offsets"])
        flat = torch.frombuffer(bytearray(content[start:end]), dtype=types[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
names = sorted(tensors)
for folder in "one", "many":
    os.mkdir(folder)
    shutil.copy("model/config.json", folder)
torch.save(collections.OrderedDict(tensors), "one/pytorch_model.bin")
torch.save({"state_dict": tensors, "step": 3}, "wrapped.pt")
places = {}
for part in range(2):
    file = f"pytorch_model-{part}.bin"
    torch.save({name: tensors[name] for name in names[part::2]}, f"many/{file}")
    places |= {name: file for name in names[part::2]}
json.dump({"weight_map": places}, open("many/pytorch_model.bin.index.json", "w"))
whole = torch.arange(12, dtype=torch.float16).reshape(3, 4)
torch.save({"a": whole, "b": whole, "c": whole.T, "d": torch.tensor(5), "e": whole[:0]}, "odd.pt")
torch.save({"a": whole, "code": fail} if (fail := os.path.join) else 0, "code.pt")
torch.save({"a": "text"}, "text.pt")
PYTHON
for source in one many; do
    "$python" "$script" $source "$source-out" >/dev/null
    "$KVSHIFT" convert "$source-out" "$source-back"
    cmp model/model.safetensors "$source-back/model.safetensors" ||
        fail "'$source' gives a different model"
done
"$python" "$script" wrapped.pt wrapped.safetensors >/dev/null
cmp one-out/model.safetensors wrapped.safetensors || fail "a wrapped model gives a different model"
"$python" "$script" odd.pt odd.safetensors >out
[[ $(cat out) == "odd.safetensors: 5 tensors" ]] || fail "odd.pt: $(cat out)"

refused "already exists" one one-out
refused "cannot open 'nothing'" nothing x
refused "cannot be loaded as weights only" code.pt x
refused "has 'a' of type str, expected a tensor" text.pt x
refused "has neither pytorch_model.bin nor" model x
sed -i 's/"model.norm.weight"/"model.nerm.weight"/' many/pytorch_model.bin.index.json
refused "has no tensor 'model.nerm.weight'" many x
[[ ! -e x ]] || fail "an error leaves a file behind"
