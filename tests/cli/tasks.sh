#!/usr/bin/env bash
# The tasks hop-k and igsm: their sequences, and training on them.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

refused() { # TEXT ARGUMENT...
    local text=$1 code=0
    shift
    "$KVSHIFT" train --steps 1 --quiet "$@" >out 2>err || code=$?
    [[ $code == 2 && $(wc -l <err) == 1 && $(cat err) == *"$text"* ]] ||
        fail "'$*' exits $code and prints: $(cat err)"
}

# One hop: no answer for the first of each letter; the same seed gives the same answers.
"$KVSHIFT" train --task hopk --string 10 --hops 1 --only-hops 1 --show 3 >out
[[ $(grep -c '^fed  *1 [a-d]' out) == 3 && $(grep -c 'blank none' out) == 3 ]] || fail "$(cat out)"
"$KVSHIFT" train --task hopk --string 10 --hops 1 --only-hops 1 --show 3 | cmp -s - out ||
    fail "the seed gives different sequences"

# A problem, its solution line by line, and the end; the asked number is scored.
"$KVSHIFT" train --task igsm --items 1 --max-op 4 --show 1 >out
grep -q '^fed .* equals .* ? | let .* then a = [0-9 +*()-]*' out || fail "$(cat out)"
grep -q '^target .* <end>$' out && grep -q '^scored  *[0-9]*:[0-9]*$' out || fail "$(cat out)"
"$KVSHIFT" train --task igsm --mode official --max-op 5 --show 1 | grep -q '| answer [0-9]' ||
    fail "no answer"

# Training on both: losses are finite and fall, and the task sets the vocabulary size.
for task in "hopk --string 16 --hops 2" "igsm --items 1 --max-op 4 --wording compact" \
    "igsm --mode official --max-op 3 --edges 12 --solution-only"; do
    # shellcheck disable=SC2086
    "$KVSHIFT" train --task $task --dim 32 --heads 2 --batch 8 --steps 30 --lr 3e-3 \
        --eval-sequences 8 --quiet --json --out run >out
    grep -q '"final_loss": [0-9]' out || fail "$task: $(cat out)"
    [[ $(grep -c '"step"' run/train.jsonl) == 30 ]] || fail "$task: no log"
    rm -r run
done

refused "option '--hops' is for task hopk" --task igsm --hops 3
refused "option '--items' is for task igsm" --task hopk --items 3
refused "option '--string' is for task hopk" --string 9
refused "'--only-hops': expected one number" --task hopk --only-hops 1,2
refused "hop-k with '9' hops only" --task hopk --hops 3 --only-hops 9
refused "but task hopk has 23 tokens" --task hopk --vocab 22
refused "igsm wording 'compact'" --task igsm --mode official --wording compact
refused "igsm min op with these items" --task igsm --min-op 11 --max-op 12 --items 2
refused "igsm max length" --task igsm --min-op 12 --problem-length 64
