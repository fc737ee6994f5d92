#!/usr/bin/env bash
# Stored results compared, shown and tabulated; losses by position.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to make results"; exit 77; }

# Results of two models in the harness's format, with made-up likelihoods.
cat >make.py <<'END'
import hashlib, json, math, os, random, sys
out, model, seed, skill, shots = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
os.makedirs(out, exist_ok=True)
date = "2026-01-01T00-00-00.%06d" % seed
sha = lambda text: hashlib.sha256(text.encode()).hexdigest()
ours, shared = random.Random(seed), random.Random(0)
results = {}
def write(task, lines):
    with open(f"{out}/samples_{task}_{date}.jsonl", "w") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    results[task] = {"acc,none": sum(line["acc"] for line in lines) / len(lines)}
def sample(i, doc, target, requests, likelihoods):
    return {"doc_id": i, "doc": doc, "target": target,
            "arguments": {f"gen_args_{k}": {"arg_0": c, "arg_1": a} for k, (c, a) in enumerate(requests)},
            "filtered_resps": [[str(l), "False"] for l in likelihoods], "filter": "none",
            "doc_hash": sha(json.dumps(doc)), "prompt_hash": sha(requests[0][0]), "target_hash": sha(target)}
for task in "mmlu_anatomy", "mmlu_virology", "mmlu_astronomy":
    lines = []
    for i in range(80):
        gold, texts = shared.randrange(4), ["é" * shared.randrange(1, 9) for _ in range(4)]
        likelihoods = [ours.gauss(0, 1) + skill * (k == gold) for k in range(4)]
        line = sample(i, {"question": f"{task} {i}", "choices": texts}, str(gold),
                      [("shot " * shots + f"{task} {i}", " " + letter) for letter in "ABCD"], likelihoods)
        line.update(metrics=["acc"], acc=float(likelihoods.index(max(likelihoods)) == gold))
        lines.append(line)
    write(task, lines)
lines = []
for i in range(100):
    word = shared.choice(["cat", "zebra"])
    ll = -abs(ours.gauss(3 - skill, 1))
    line = sample(i, {"text": f"{i} the cat {word}"}, " " + word, [(f"{i} the cat", " " + word)], [ll])
    line.update(metrics=["perplexity", "acc"], perplexity=ll, acc=int(ll > -2))
    lines.append(line)
write("lambada_openai", lines)
json.dump({"results": results, "group_subtasks": {"mmlu": ["mmlu_stem", "mmlu_other"], "mmlu_other": ["mmlu_virology"],
           "mmlu_stem": ["mmlu_anatomy", "mmlu_astronomy"], "lambada_openai": []},
           "n-shot": {task: shots for task in results}, "model_name": model}, open(f"{out}/results_{date}.json", "w"))
END
python3 make.py A runs/plain 1 0.3 0
python3 make.py B runs/shifted 2 1.0 0
python3 make.py A5 runs/plain 3 0.6 5

# ---- compare: against the same values computed here ----
"$KVSHIFT" eval compare A B --json >out.json
python3 - <<'END' || fail "compare: $(cat out.json)"
import json, math, glob
def read(folder):
    docs = {}
    for path in glob.glob(folder + "/samples_*.jsonl"):
        for line in open(path):
            line = json.loads(line)
            docs[path.split("_20")[0].split("samples_")[1], line["doc_hash"]] = line
    return docs
a, b = read("A"), read("B")
r = json.load(open("out.json"))
rows = {(row["task"], row["metric"]): row for row in r["tests"]}
for task, prefix in ("mmlu", "mmlu_"), ("lambada_openai", "lambada"), ("mmlu_virology", "mmlu_virology"):
    keys = [k for k in a if k[0].startswith(prefix)]
    gained = sum(b[k]["acc"] > a[k]["acc"] for k in keys)
    lost = sum(b[k]["acc"] < a[k]["acc"] for k in keys)
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(min(gained, lost) + 1)) / 2**n
    row = rows[task, "acc"]
    assert (row["documents"], row["gained"], row["lost"]) == (len(keys), gained, lost), row
    assert abs(row["p"] - min(1, 2 * tail)) < 1e-12, row
    assert abs(row["mid_p"] - (2 * tail - math.comb(n, min(gained, lost)) / 2**n)) < 1e-12, row
    assert abs(row["difference"] - (gained - lost) / len(keys)) < 1e-12, row
    assert abs(row["error"] - math.sqrt(n - (gained - lost)**2 / len(keys)) / len(keys)) < 1e-12, row
keys = [k for k in a if k[0].startswith("lambada")]
row = rows["lambada_openai", "perplexity"]
mean = lambda x: sum(x[k]["perplexity"] for k in keys) / len(keys)
assert abs(row["values"][0] - math.exp(-mean(a))) < 1e-9 and abs(row["difference"] - (mean(a) - mean(b))) < 1e-12, row
assert row["interval"][0] < row["difference"] < row["interval"][1], row
assert rows["mmlu", "acc"]["by_subject"]["subjects"] == 3
main = sorted(row["p"] for row in r["tests"] if row["role"] == "main")
assert len(main) == 2 and abs(min(row["p_holm"] for row in r["tests"] if row["role"] == "main") - min(1, 2 * main[0])) < 1e-12
gold = [int(a[k]["target"]) for k in a if k[0].startswith("mmlu_")]
texts = [a[k]["doc"]["choices"] for k in a if k[0].startswith("mmlu_")]
base = r["baselines"]["mmlu"]
assert abs(base["first"] - gold.count(0) / 240) < 1e-12 and base["random"] == 0.25
assert abs(base["longest"] - sum(max(range(4), key=lambda i: len(t[i])) == g for t, g in zip(texts, gold)) / 240) < 1e-12
END
"$KVSHIFT" eval compare A B --json >again.json
cmp out.json again.json || fail "two comparisons differ"
"$KVSHIFT" eval compare A B --details --csv out.csv --markdown out.md >out
grep -q '^mmlu_virology' out || fail "no subjects: $(cat out)"
head -n 1 out.csv | grep -q '^task,metric,documents,plain,shifted,' || fail "csv: $(cat out.csv)"
grep -q '^| mmlu | acc | 240 |' out.md || fail "markdown: $(cat out.md)"

# Other shots are other prompts; documents that one of the two lacks are counted.
"$KVSHIFT" eval compare A A5 >out
grep -q 'mmlu: 240 of 240 documents have different prompts' out || fail "prompts: $(cat out)"
grep -q '(0 and 5 shots)' out || fail "shots: $(cat out)"
"$KVSHIFT" eval compare A A5 --same-prompts >out
grep -q 'mmlu: 240 documents with different prompts' out || fail "same prompts: $(cat out)"
! sed '/^Scores/q' out | grep -q '^mmlu ' || fail "mmlu has no document in common: $(cat out)"
cp -r A part
for file in part/samples_lambada*; do head -n 60 "$file" >cut && mv cut "$file"; done
"$KVSHIFT" eval compare part B >out
tr '\n' ' ' <out >line
grep -q "lambada_openai: 40 documents are left out, 0 only in 'plain' and 40 only in 'shifted'; 60 are compared" line ||
    fail "left out: $(cat out)"
grep -q 'the results say acc' out || fail "results and samples differ: $(cat out)"

# ---- show and table ----
"$KVSHIFT" eval show A A5 --json >out.json
python3 - <<'END' || fail "show: $(cat out.json)"
import glob, json, math
docs = [json.loads(line) for path in glob.glob("A/samples_mmlu*") for line in open(path)]
brier, margin, bits = [], [], []
for d in docs:
    l = [float(x[0]) for x in d["filtered_resps"]]
    g, z = int(d["target"]), sum(math.exp(x) for x in l)
    brier.append(sum((math.exp(x) / z - (i == g))**2 for i, x in enumerate(l)))
    margin.append(l[g] - max(x for i, x in enumerate(l) if i != g))
    bits.append(-l[g] / math.log(2))
r = json.load(open("out.json"))
task = {t["task"]: t for t in r["models"][0]["tasks"]}["mmlu"]
for name, values in ("brier", brier), ("margin", margin), ("gold_bits_per_byte", bits):
    assert abs(task[name]["mean"] - sum(values) / 240) < 1e-12, name
assert sum(b["documents"] for b in task["reliability"]) == 240 and len(task["reliability"]) == 15
word = {t["task"]: t for t in r["models"][0]["tasks"]}["lambada_openai"]
assert word["words_in_context"]["documents"] + word["new_words"]["documents"] == 100
assert [s["shots"] for s in r["shots"] if s["task"] == "mmlu"] == [0, 5]
END
"$KVSHIFT" eval show A >out
grep -q 'last word occurs in its context' out || fail "show: $(cat out)"
"$KVSHIFT" eval table A B >out
grep -q '^shifted .*\*' out || fail "the better model is not marked: $(cat out)"
# Rows with the same number of tokens are compared with each other only, if there are any.
for i in 1 2 3; do
    mkdir -p "runs/m$i"
    echo "{\"tokens\": $((i < 3 ? 100 : 200))}" >"runs/m$i/result.json"
done
python3 make.py T1 runs/m1 1 0.3 0
python3 make.py T2 runs/m2 2 1.0 0
python3 make.py T3 runs/m3 5 2.5 0
"$KVSHIFT" eval table T1 T2 T3 >out
grep -q '^m2 .*\*' out || fail "the better of two models with as many tokens is not marked: $(cat out)"
if grep -q '^m[13] .*\*' out; then fail "a model without another of its tokens is marked: $(cat out)"; fi
"$KVSHIFT" eval table T1 T3 >out
grep -q '^m3 .*\*' out || fail "the best of all is not marked: $(cat out)"
"$KVSHIFT" eval table A B A5 --table mmlu --csv out.csv >out
grep -q '^plain,,[0-9.]*,[0-9.]*$' out.csv || fail "one row per model: $(cat out.csv)"
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" eval compare A B --svg out.svg --html out.html >/dev/null
    grep -q '<svg' out.svg && grep -q '</html>' out.html || fail "no picture or page"
fi

# ---- misuse ----
refuse() { # TEXT ARGUMENT...
    local text=$1
    shift
    ! "$KVSHIFT" eval "$@" >out 2>&1 || fail "accepted: $*"
    [[ $(wc -l <out) -eq 1 ]] || fail "not one line: $(cat out)"
    grep -q "$text" out || fail "expected '$text', found: $(cat out)"
}
refuse 'at least 2' compare A
refuse 'given twice' compare A A
refuse "'nowhere' is neither a folder" compare A nowhere
mkdir empty
refuse "'empty' has no results" show empty
cp -r A broken
for file in broken/samples_lambada*; do sed -i '3s/"doc_id": 2/"doc_id": "x"/' "$file"; done
refuse "samples_lambada_openai_.*line 3': key 'doc_id'" show broken
cp -r A long
for file in long/samples_lambada*; do head -c 20000000 /dev/zero | tr '\0' a >>"$file"; done
refuse "line 101' has a line of more than 16777216 bytes" show long

# ---- losses by position ----
for i in $(seq 400); do echo "line $((i % 7)): the cat sat on the mat."; done >text.txt
"$KVSHIFT" tokenizer train text.txt --vocab 270 --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --valid 0.1 --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus --dim 16 --heads 2 --layers 1 --context 512 --batch 1 --steps 2 --out run \
    --quiet >/dev/null
"$KVSHIFT" ppl -m run --positions text.txt >out 2>err
grep -q '^score ' out && grep -q 'windows of 512 tokens' out || fail "positions: $(cat out err)"
"$KVSHIFT" ppl -m run --positions --json text.txt >out 2>err
python3 - <<'END' || fail "positions: $(cat out)"
import json
r = json.load(open("out"))
m = r["models"][0]
assert m["curve"][0]["first"] == 2 and m["curve"][-1]["last"] == 513 == r["last_token"]
assert abs(m["token_500"][0] - m["token_50"][0] - m["score"][0]) < 1e-9
END
! "$KVSHIFT" ppl -m run --positions --window 100 text.txt >out 2>&1 || fail "a window of 100"
grep -q 'window is 100, expected at least 512' out || fail "$(cat out)"
! "$KVSHIFT" ppl -m run --svg x.svg text.txt >out 2>&1 || fail "--svg without --positions"
