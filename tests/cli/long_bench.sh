#!/usr/bin/env bash
# Short benchmarks: output as text and as JSON, and errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

# refused CODE TEXT ARGUMENT...: one line on standard error, nothing on standard output.
refused() {
    local expected=$1 text=$2 code=0
    shift 2
    "$KVSHIFT" bench "$@" >out 2>err </dev/null || code=$?
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat err)"
    [[ $(wc -l <err) == 1 && ! -s out ]] || fail "'$*' prints: $(cat err out)"
    [[ $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
}

has_keys() { # FILE KEY...
    local file=$1 key
    shift
    for key; do
        grep -q "\"$key\": " "$file" || fail "$file lacks '$key': $(cat "$file")"
    done
}

for verb in machine train attention infer compare; do
    "$KVSHIFT" bench "$verb" --help >help
    grep -q "^usage: kvshift bench $verb" help || fail "no usage of '$verb'"
    ! grep -q '.\{101\}' help || fail "'bench $verb --help' has long lines"
done

# As long as the measurement of the peak, so that other load on the machine affects both equally.
tiny=(train --model tiny --batch 4 --length 128 --steps 5)

"$KVSHIFT" bench "${tiny[@]}" --shift none >out
grep -q '^model       tiny, shift none, f32, 4 x 128 tokens' out || fail "train prints: $(cat out)"
! grep -q unshifted out || fail "unshifted results without a shift: $(cat out)"
"$KVSHIFT" bench "${tiny[@]}" --shift kv --profile --json >kv.json
"$KVSHIFT" bench "${tiny[@]}" --shift none --threads 1 --json >none.json
"$KVSHIFT" bench attention --len 1024 --head-size 64 --heads 4 --kv-heads 2 --rounds 5 --json >att.json
"$KVSHIFT" bench machine --rounds 1 --json >machine.json
has_keys kv.json model shift threads tokens_per_s step_ms best median gflops peak_gflops \
    fraction_of_peak unit f32_unit f32_peak_gflops fraction_of_f32_peak peak_rss_mb loss_first \
    loss_last overhead_vs_vanilla profile share other \
    attention_forward "linear_backward_weight gate_up" adamw data
has_keys machine.json unit peak_gflops peak_gflops_one_thread read_gb_per_s units gemm "kvlm qkv" \
    backward_weight_gflops
has_keys att.json forward backward unit fraction_of_peak fraction_of_f32_peak peak_rss_mb start_rss_mb
! grep -q 'overhead\|profile"' none.json || fail "none.json has unexpected keys: $(cat none.json)"

grep -q '"threads": 1' none.json || fail "--threads has no effect"

if command -v python3 >/dev/null; then
    python3 - <<'PYTHON' || fail "the numbers: $(cat kv.json att.json machine.json)"
import json
kv, none, att, machine = (json.load(open(f)) for f in
                          ("kv.json", "none.json", "att.json", "machine.json"))
for found in (kv["fraction_of_peak"], none["fraction_of_peak"], att["fraction_of_peak"]):
    assert 0 < found < 1.2, found
# No upper limit: on a busy machine one round may measure the peak too low.
assert all(product["fraction_of_peak"] > 0 for product in machine["gemm"].values())
assert kv["step_ms"]["best"] <= kv["step_ms"]["median"]
work = 512 * (6 * (2 * (4 * 128 * 128 + 3 * 128 * 352) + 256 * 128) + 6 * 2 * 128 * 128)
assert abs(kv["gflops"] * kv["step_ms"]["median"] * 1e6 / work - 1) < 1e-9
assert kv["tokens_per_s"] > 0 and kv["peak_rss_mb"] > 1
assert kv["loss_last"] < kv["loss_first"] < 7 and none["loss_last"] < none["loss_first"]
shares = {name: op["share"] for name, op in kv["profile"].items()}
assert abs(sum(shares.values()) - 1) < 1e-9
assert 0 <= shares["other"] < 0.1, shares["other"]
assert machine["peak_gflops"] > 0 and machine["peak_gflops_one_thread"] > 0
for found in (kv, none, att):
    assert abs(found["fraction_of_f32_peak"] * found["f32_peak_gflops"] /
               (found["fraction_of_peak"] * found["peak_gflops"]) - 1) < 1e-9
# Every unit is listed: with a rate, or with the reason why this processor has none.
units = {unit["name"]: unit for unit in machine["units"]}
assert set(units) == {"vector-128", "fma-256", "fma-512", "vdpbf16ps", "amx-bf16", "vpmaddwd-256",
                      "vpdpwssd-256", "vpdpwssd-512", "amx-int8"}, units
for unit in units.values():
    rate = unit["gops" if unit["name"].startswith("vp") or "int8" in unit["name"] else "gflops"]
    assert (rate > 0 and not unit["reason"]) if unit["usable"] else (rate is None and unit["reason"])
# With AMX a float32 product is several products of parts: amx-bf16x3 runs on amx-bf16.
assert units[machine["unit"].removesuffix("x3")]["usable"] and kv["unit"] == machine["unit"]
PYTHON
fi

# Two results side by side.
"$KVSHIFT" bench compare kv.json kv.json >out
grep -Eq '^tokens_per_s +[0-9.e+]+ +[0-9.e+]+ +1\.000$' out || fail "compare prints: $(cat out)"
! grep -q differs out || fail "a result differs from itself: $(cat out)"
"$KVSHIFT" bench compare kv.json none.json >out
grep -q "^shift differs: 'kv' and 'none'$" out ||
    fail "compare does not report the difference: $(cat out)"
grep -Eq '^step_ms.median ' out || fail "compare lacks nested numbers: $(cat out)"
echo '{"a": "b"}' >other.json
refused 1 "have no value in common" compare kv.json other.json
refused 1 "nowhere.json" compare kv.json nowhere.json
refused 2 "expected at least 2 FILE" compare kv.json

# One step per input line; --save writes the initial weights and the batch.
printf '\n\n\n' | "$KVSHIFT" bench "${tiny[@]}" --paced --save saved >out
[[ $(grep -c '^{"seconds": [0-9.e-]*, "loss": ' out) == 3 ]] || fail "paced prints: $(cat out)"
grep -q '^{"ready": true, "batch": 4, "length": 128}$' out || fail "paced is not ready: $(cat out)"
for file in config.json model.safetensors batch.safetensors; do
    [[ -s saved/$file ]] || fail "--save did not write $file"
done
"$KVSHIFT" inspect saved >/dev/null || fail "the saved model is invalid"

# Inference: random weights with and without the shift, then a model file.
small=(--prompt 24 --gen 6 --depth 4 --rounds 2)
TMPDIR=$work "$KVSHIFT" bench infer --model tiny --dtype q8_0 --shift kv "${small[@]}" --json >infer.json
has_keys infer.json model dtype shift kv_cache precision exact prompt_tok_s gen_tok_s bytes_per_token read_gb_s \
    unit prompt_gflops fraction_of_peak fraction_of_f32_peak machine_read_gb_s peak_rss_mb load_ms overhead_vs_vanilla prompt_overhead_vs_vanilla
TMPDIR=$work "$KVSHIFT" bench infer --model tiny --precision bf16 "${small[@]}" --json >bf16.json
grep -q '"precision": "bf16"' bf16.json || fail "infer in bf16: $(cat bf16.json)"
grep -Eq '"unit": "(vdpbf16ps|amx)' bf16.json || fail "the unit of bf16: $(cat bf16.json)"
TMPDIR=$work "$KVSHIFT" bench infer --model tiny --dtype q8_0 --precision bf16 "${small[@]}" --json >q8.json
[[ $(grep '"unit"' q8.json) == $(grep '"unit"' infer.json) ]] || fail "bf16 of q8_0: $(cat q8.json)"
refused 2 "option '--precision'" infer --precision fp8
[[ -z $(find . -name 'kvshift-bench-*') ]] || fail "temporary models are left behind"
"$KVSHIFT" bench infer --model saved "${small[@]}" --kv-cache f16 --batch 3 --json >f32.json
TMPDIR=$work "$KVSHIFT" bench infer --model saved --dtype q4_0 "${small[@]}" >out
grep -Eq '^generation  [0-9.]+ tokens/s .* 6 tokens after 4, 1 at a time$' out || fail "infer: $(cat out)"
if command -v python3 >/dev/null; then
    python3 - <<'PYTHON' || fail "the numbers: $(cat infer.json f32.json)"
import json
q8, f32 = json.load(open("infer.json")), json.load(open("f32.json"))
weights = 2 * (4 * 128 * 128 + 3 * 128 * 352) + 256 * 128
keys = 7 * 2 * 2 * 128 * 4  # four tokens and half of six; two layers' keys and values
assert abs(q8["bytes_per_token"] - (weights * 34 / 32 + keys)) < 1e-6, q8["bytes_per_token"]
assert abs(f32["bytes_per_token"] - (weights * 4 / 3 + keys / 2)) < 1e-6, f32["bytes_per_token"]
# a prompt of 24 tokens: layers, the head once, and attention
flops = 2 * (weights - 256 * 128) * 24 + 2 * 256 * 128 + 2 * 2 * 128 * 24 * 24
for found in (q8, f32):
    assert abs(found["prompt_gflops"] * 1e9 / (flops * found["prompt_tok_s"] / 24) - 1) < 1e-9
    assert found["prompt_tok_s"] > 0 and found["gen_tok_s"] > 0 and found["load_ms"] > 0
    rate = found["bytes_per_token"] * found["gen_tok_s"]
    assert abs(found["read_gb_s"] * 1e9 / rate - 1) < 1e-9
PYTHON
fi
refused 2 "'nowhere' is not a model's folder or file, a bench model or a preset" infer --model nowhere
refused 2 "option '--shift' is for random weights" infer --model saved --shift kv
refused 2 "nothing to measure" infer --model tiny --prompt 0 --gen 0
refused 1 "has a context of 128 tokens, 200 are needed" infer --model saved --prompt 200 --gen 0
TMPDIR=$work/nowhere refused 1 "cannot make a folder" infer --model tiny "${small[@]}"

refused 2 "did you mean 'bench train'?" trian
refused 2 "--model" train --model large
refused 2 "--steps" train --steps many
refused 2 "unknown CPU level 'fast'" machine --cpu-level fast
refused 2 "kv" attention --heads 4 --kv-heads 3 --len 16
code=0
"$KVSHIFT" bench "${tiny[@]}" --paced </dev/null >out 2>err || code=$?
[[ $code == 2 && $(cat err) == "kvshift: nothing was measured: 0 rounds"* ]] ||
    fail "no rounds exit $code: $(cat err)"
echo "passed"
