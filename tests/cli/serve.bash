# Sourced by the scripts that test the server: trains the small model `run`.
if "$KVSHIFT" serve -m nowhere 2>&1 | grep -q 'no HTTP server'; then
    echo "skipped: built without libmicrohttpd"
    exit 77
fi
export PYTHONDONTWRITEBYTECODE=1 # the tree stays as it is
for i in $(seq 300); do
    echo "line $((i % 7)): the cat sat on the mat — und die Bäume grün."
done >text.txt
"$KVSHIFT" tokenizer train text.txt --vocab 300 --special '<|endoftext|>' --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus --dim 64 --heads 4 --layers 2 --context 1024 --batch 1 --steps 12 \
    --warmup 2 --lr 4e-3 --out run --quiet >/dev/null
