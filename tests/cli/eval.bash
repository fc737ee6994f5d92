# Sourced by the scripts that test 'kvshift eval': makes a tokenizer, a model and benchmark files in
# the current folder.

# make_model DIM LAYERS: the folder `model`, almost untrained, and tok.json.
make_model() {
    for i in $(seq 200); do
        echo "Question: which cat sat on mat $((i % 7))? Answer: the cat number $((i % 5)) sat there."
    done >text.txt
    "$KVSHIFT" tokenizer train text.txt --vocab 300 --special '<|endoftext|>' --out tok.json >/dev/null 2>&1
    "$KVSHIFT" data build text.txt -t tok.json --valid 0.1 --out corpus --quiet >/dev/null
    "$KVSHIFT" train --data corpus --shift kv --dim "$1" --heads 4 --layers "$2" --context 320 --batch 2 \
        --steps 3 --lr 4e-3 --out model --quiet >/dev/null
}

# make_data COUNT: the folder `data` with that many documents per task.
make_data() {
    mkdir -p data/arc data/lambada data/winogrande data/mmlu/test data/mmlu/dev data/math
    for i in $(seq "$1"); do
        echo "{\"id\": \"$i\", \"question\": {\"stem\": \"Which cat is number $i?\", \"choices\": [{\"text\": \"the cat $i\", \"label\": \"A\"}, {\"text\": \"a mat\", \"label\": \"B\"}, {\"text\": \"no cat at all\", \"label\": \"C\"}]}, \"answerKey\": \"$(printf "\\x$((41 + i % 3))")\"}"
    done >data/arc/ARC-Easy-Test.jsonl
    head -n 10 data/arc/ARC-Easy-Test.jsonl >data/arc/ARC-Easy-Dev.jsonl
    for i in $(seq "$1"); do
        echo "{\"text\": \"the cat sat on mat $i and on the mat\"}"
    done >data/lambada/lambada_test.jsonl
    for i in $(seq "$1"); do
        echo "{\"sentence\": \"cat $i sat near the dog since _ was tired\", \"option1\": \"the cat\", \"option2\": \"the dog\", \"answer\": \"$((1 + i % 2))\"}"
    done >data/winogrande/dev.jsonl
    cp data/winogrande/dev.jsonl data/winogrande/train_xl.jsonl
    for i in $(seq "$1"); do
        echo "What is cat $i?,a cat,a mat,\"a hat, no\",$i,A"
    done >data/mmlu/test/anatomy_test.csv
    cp data/mmlu/test/anatomy_test.csv data/mmlu/test/astronomy_test.csv
    head -n 5 data/mmlu/test/anatomy_test.csv >data/mmlu/dev/anatomy_dev.csv
    cp data/mmlu/dev/anatomy_dev.csv data/mmlu/dev/astronomy_dev.csv
    for i in $(seq 3); do
        echo "{\"problem\": \"Add $i and 1.\", \"solution\": \"\$\\\\boxed{$i}\$\", \"type\": \"Algebra\"}"
    done >data/math/test.jsonl
}

# same_results ONE OTHER: result files are equal except for dates, durations and names.
same_results() {
    python3 - "$1" "$2" <<'END' || fail "the results in $1 and $2 differ"
import glob, json, os, re, sys
def read(folder):
    found = {}
    for path in sorted(glob.glob(folder + '/**/*.json*', recursive=True)):
        name = re.sub(r'_\d{4}-\d\d-\d\dT[\d.-]+\.json', '.json', os.path.relpath(path, folder))
        text = open(path).read()
        if name.endswith('results.json'):
            text = json.loads(text)
            del text['date'], text['total_evaluation_time_seconds']
        assert name not in found, name
        found[name] = text
    return found
one, other = read(sys.argv[1]), read(sys.argv[2])
assert one.keys() == other.keys() and len(one) > 1, (one.keys(), other.keys())
for name in one:
    assert one[name] == other[name], name
END
}
