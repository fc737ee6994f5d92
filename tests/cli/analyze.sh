#!/usr/bin/env bash
# Output of analyze for a model that has learned induction, as text and as JSON.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON" >&2; exit 77; }

json() { # EXPRESSION over `d`, the JSON in out; it must be true
    python3 -c "import json; d = json.load(open('out')); assert $1, d" || fail "not '$1': $(cat out)"
}

train() { # NAME OPTION...
    local name=$1
    shift
    "$KVSHIFT" train --dim 32 --heads 2 --vocab 64 --pool 32 --max-length 32 --batch 32 \
        --eval-sequences 16 --quiet --out "$name" "$@" >/dev/null
}

# One layer that has learned the task has an induction head; a model without a shift has no
# coefficients, and one layer of it cannot do the task.
train kv --steps 600 --lr 5e-3
train plain --steps 20 --shift none --layers 2
"$KVSHIFT" analyze kv --first-id 11 --json >out
json "any(h['reading'] == 'induction' for h in d['heads'])"
json "len(d['coefficients']['kv_heads']) == d['sums']['kv_heads'] == 2"
json "d['tokens']['length'] == 15 and all(abs(h['previous_keys']) <= 1 for h in d['heads'])"
"$KVSHIFT" analyze kv --first-id 11 >out
grep -q 'heads by kind' out || fail "no table of kinds: $(cat out)"
grep -q '^  *0  *[01] .* induction$' out || fail "no induction head: $(cat out)"
"$KVSHIFT" analyze plain --json >out
json "d['coefficients'] is None and d['sums'] is None and len(d['heads']) == 4"
json "all(h['by_place'] == h['by_content'] for h in d['heads'])"
json "all(h['previous_keys'] is None for h in d['heads'])"
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" analyze plain --svg heads.svg >/dev/null
    grep -q 'layer 1 head 1' heads.svg || fail "no drawing"
fi

code=0
"$KVSHIFT" analyze kv --first-id 63 >out 2>err || code=$?
[[ $code == 2 && $(cat err) == *"first id is '63'"* ]] || fail "exits $code: $(cat err)"
code=0
"$KVSHIFT" analyze nowhere >out 2>err || code=$?
[[ $code != 0 && $(wc -l <err) == 1 ]] || fail "exits $code: $(cat err)"
