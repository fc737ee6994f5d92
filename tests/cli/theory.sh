#!/usr/bin/env bash
# Output of the theory commands, as text and as JSON.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON" >&2; exit 77; }

refused() { # TEXT ARGUMENT...
    local text=$1 code=0
    shift
    "$KVSHIFT" theory "$@" >out 2>err || code=$?
    [[ $code == 2 && ! -s out ]] || fail "'$*' exits $code: $(cat out err)"
    [[ $(cat err) == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat err)"
}

json() { # EXPRESSION over `d`, the JSON in out; it must be true
    python3 -c "import json; d = json.load(open('out')); assert $1, d" || fail "not '$1': $(cat out)"
}

"$KVSHIFT" theory theorem3 --T 12 --alpha .2,.8 --beta .9,.1 --json >out
json "list(d) == ['loss'] and abs(d['loss'] - 2.42483) < 5e-6"
"$KVSHIFT" theory theorem3 --T 12 --alpha .2,.8 --beta .9,.1 --brute-force --network --gradient \
    --samples 3 --dim 64 --json >out
json "d['brute_force_difference'] < 2e-13 and abs(d['network'] - d['loss']) < 1e-6"
json "len(d['gradient']['alpha']) == 2 and d['monte_carlo']['dim'] == 64"
"$KVSHIFT" theory theorem3 --T 12 --alpha .2,.8 --beta .9,.1 --printed --json >out
json "abs(d['loss'] - 2.42483) > 1e-4"
"$KVSHIFT" theory theorem3 --alpha -1,2 --beta 3,-1 | grep -q 'α = (-1, 2), β = (3, -1)' ||
    fail "negative coefficients are not accepted"

"$KVSHIFT" theory theorem1 --p 8,16 --inputs 10 --json >out
json "all(r['error'] <= r['bound'] and r['self_error'] > .5 for r in d['rows'])"
"$KVSHIFT" theory theorem2 --sigma 1,.1 --inputs 10 --json >out
json "[r['sigma'] for r in d['rows']] == [1, .1] and d['rows'][0]['masked'] < 1e-15"
"$KVSHIFT" theory theorem2 --sigma .1 | grep -q 'as printed' || fail "no table"

"$KVSHIFT" theory landscape --T 5,30 --figure 10 --grid 10 --steps 10 --json >out
json "[p['form'] for p in d['landscapes']] == ['exact', 'exact', 'figure']"
json "all((p['lowest']['alpha1'], p['lowest']['beta1']) == (0, 1) for p in d['landscapes'])"
if command -v gnuplot >/dev/null; then
    "$KVSHIFT" theory landscape --T 5 --figure 10 --steps 10 --svg a.svg >/dev/null
    grep -q '<svg' a.svg || fail "no drawing"
fi

refused "'--alpha': expected two numbers" theorem3 --alpha 1
refused "T is '3'" theorem3 --T 3
refused "i is '12'" theorem3 --T 12 --i 12
refused "has no edge cases" theorem3 --T 12 --i 1 --printed
refused "panels" landscape --T 4,5,6,7,8,9,10 --figure 1,2,3,4,5,6
refused "did you mean 'theory theorem" theorem4
