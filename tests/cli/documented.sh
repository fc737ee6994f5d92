#!/usr/bin/env bash
# Every command line in the documentation is accepted by the option tables: its command, its options, their values and
# the number of arguments.  With KVSHIFT_PARSE_ONLY=1 a command ends after parsing.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
. "$here/documented.bash"
source=$(cd "$here/../.." && pwd)
cp -r "$source/examples" .
files=("$source"/README.md "$source"/docs/*.md "$source"/docs/*/*.md "$source"/examples/*/README.md)

# Placeholders are accepted for options that take any text; other placeholders get a value.
fill_in() { sed -E -e 's/--task NAME/--task induction/' -e 's/\bN\b/1/'; }

# Splits a line into words as a shell does, without expanding names of files, and runs it.
parse() { # LINE
    local -a words
    eval "words=($1)"
    KVSHIFT_PARSE_ONLY=1 "$KVSHIFT" "${words[@]:1}" >out 2>err </dev/null
}

set -f
count=0
while IFS= read -r line <&3; do
    count=$((count + 1))
    parse "$line" || fail "documented, but not accepted: '$line': $(cat err)"
done 3< <(documented_lines "${files[@]}" | fill_in)
[[ $count -ge 90 ]] || fail "found only $count command lines"

# A sentence may leave out arguments and values.
while IFS= read -r line <&3; do
    parse "$line" || grep -qE 'expected at least|needs a value' err ||
        fail "mentioned, but not accepted: '$line': $(cat err)"
done 3< <(documented_mentions "${files[@]}" | fill_in)

# The check itself finds mistakes.
parse "kvshift train --stepz 3" && fail "an unknown option is accepted"
parse "kvshift train --steps few" && fail "a bad value is accepted"
parse "kvshift trane" && fail "an unknown command is accepted"
parse "kvshift train --steps 3 --out run" || fail "a good line is refused: $(cat err)"
[[ ! -e run ]] || fail "KVSHIFT_PARSE_ONLY does not stop the command"
echo "passed: $count command lines"
