#!/usr/bin/env bash
# An evaluation that is killed ten times and resumed gives the files of one that was not.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/eval.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
make_model 128 4
make_data 150
run=("$KVSHIFT" eval -m model --tasks "arc_easy,winogrande,mmlu,lambada_openai,hendrycks_math"
    --data data --num-fewshot 0 --quiet)
lines() { if [[ -e parts/model/journal.jsonl ]]; then wc -l <parts/model/journal.jsonl; else echo 0; fi; }

"${run[@]}" --out whole >/dev/null
kills=0 scoring=0
for attempt in $(seq 60); do
    before=$(lines)
    "${run[@]}" --out parts --resume >/dev/null 2>&1 &
    pid=$!
    if ((attempt % 3 == 0)); then
        sleep "0.0$((RANDOM % 10))" # while files are read and tokens made
    else
        more=$((1 + RANDOM % 60))
        while kill -0 $pid 2>/dev/null && (($(lines) < before + more)); do sleep 0.005; done
    fi
    if kill -9 $pid 2>/dev/null; then
        kills=$((kills + 1))
        (($(lines) > before)) && scoring=$((scoring + 1))
    fi
    wait $pid 2>/dev/null || true
    [[ -e parts/model/journal.jsonl || $attempt -lt 3 ]] || break # it was completed
    ((kills < 10)) || break
done
[[ ! -e parts/model/journal.jsonl ]] || "${run[@]}" --out parts --resume >/dev/null
echo "killed $kills times, $scoring times while scoring"
((kills >= 10 && scoring >= 5)) || fail "too few interruptions: $kills, $scoring while scoring"
same_results whole parts
