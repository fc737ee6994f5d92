#!/usr/bin/env bash
# Short and full help, man pages and completion scripts: all are made from the tables of options.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

commands=$("$KVSHIFT" help | sed -nE 's/^  ([a-z]+) .*/\1/p')
verbs_of() { "$KVSHIFT" "$1" --help 2>/dev/null | sed -nE '/^usage: kvshift [a-z]+ [a-z|]+/,$ s/^  ([a-z0-9]+) .*/\1/p'; }

# Every example in a help text is accepted.
count=0
while IFS= read -r line <&3; do
    count=$((count + 1))
    eval "words=($line)"
    KVSHIFT_PARSE_ONLY=1 "$KVSHIFT" "${words[@]:1}" >out 2>err </dev/null || fail "'$line': $(cat err)"
done 3< <(for command in $commands; do
    "$KVSHIFT" "$command" --help | sed -nE '/^Examples:/,/^$/ s/^  (kvshift [^|<>]*).*/\1/p'
done)
[[ $count -ge 20 ]] || fail "found only $count examples"

# The short help of train has the options that a first run needs; the full one has all.
"$KVSHIFT" train --help >short
"$KVSHIFT" train --help all >all
"$KVSHIFT" help train all | cmp - all || fail "'help train all' is not 'train --help all'"
options() { sed -nE 's/^  (-., )?--([a-z0-9-]+).*/\2/p' "$1" | sort; }
expected="batch checkpoint-every config context data dim dry-run epochs eval-every heads help init-from layers lora lr max-time
model out precision resume retrofit seed shift steps task threads vocab"
[[ $(options short | paste -sd ' ') == "$(echo $expected)" ]] || fail "short help: $(options short | paste -sd ' ')"
[[ $(options all | wc -l) -gt 100 ]] || fail "the full help has $(options all | wc -l) options"
grep -q "shows all $(($(options all | wc -l) - 1)) options" short || fail "the short help counts wrongly"
"$KVSHIFT" help data build >out
grep -q '^usage: kvshift data build' out || fail "no help for two words"

# Names of other programs.
hint() { # COMMAND OPTION HINT
    "$KVSHIFT" "$1" "$2" 1 >out 2>err && fail "'$1 $2' is accepted"
    grep -q "unknown option '$2'; did you mean '$3'?" err || fail "'$1 $2': $(cat err)"
}
hint train --learning-rate --lr
hint train --learning_rate --lr
hint train --batch-size --batch
hint train --num-train-epochs --epochs
hint train --hlep --help
hint generate --temperature --temp
hint train --temperature --sample-temp
hint train --freeze --rates
hint generate --max-new-tokens --new-tokens

"$KVSHIFT" generate -n5 >out 2>err && fail "'-n5' is accepted"
grep -q "unknown option '-n5'; did you mean '-n 5'?" err || fail "'-n5': $(cat err)"
"$KVSHIFT" version --help | grep -q 'HTTP: whether' || fail "the help of version does not explain its lines"

# Man pages: every command and verb has one; groff finds no fault.
pages=0
page() {
    "$KVSHIFT" config man "$@" >page.1 || fail "no man page of '$*'"
    grep -q '^\.SH NAME' page.1 || fail "the man page of '$*' has no name"
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww page.1 2>err >/dev/null
        [[ ! -s err ]] || fail "man page of '$*': $(cat err)"
    fi
    pages=$((pages + 1))
}
page
for command in $commands; do
    [[ $command != help ]] || continue
    page "$command"
    for verb in $(verbs_of "$command"); do page "$command" "$verb"; done
done
[[ $pages -ge 30 ]] || fail "only $pages man pages"
"$KVSHIFT" config man train >page.1
grep -q '^\.B \\-\\-shift NAME' page.1 || fail "the man page of train has no --shift"

# Completion in bash.
"$KVSHIFT" config completion bash >complete.bash
complete_line() { # WORD...: prints the candidates for the last word
    bash -c '. ./complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kvshift; echo "${COMPREPLY[*]}"' - "$@"
}
[[ $(complete_line kvshift tr) == train ]] || fail "bash: $(complete_line kvshift tr)"
[[ $(complete_line kvshift data b) == build ]] || fail "bash: $(complete_line kvshift data b)"
[[ $(complete_line kvshift train --shift k) == "k kv" ]] || fail "bash: $(complete_line kvshift train --shift k)"
[[ $(complete_line kvshift train --chec) == --checkpoint-every ]] || fail "bash: $(complete_line kvshift train --chec)"
[[ " $(complete_line kvshift data build --) " == *" --tokenizer "* ]] || fail "bash: options of data build"
[[ -z $(complete_line kvshift generate -m run) ]] || fail "bash: names of files are left to the shell"
"$KVSHIFT" config completion zsh >complete.zsh
"$KVSHIFT" config completion fish >complete.fish
for shell in zsh fish; do
    ! command -v "$shell" >/dev/null || "$shell" -n complete."$shell" || fail "$shell refuses its script"
done
if command -v fish >/dev/null; then
    found=$(fish -c 'source complete.fish; complete -C "kvshift train --shift k"' | cut -f1 | paste -sd ' ')
    [[ $found == *kv* ]] || fail "fish: $found"
    found=$(fish -c 'source complete.fish; complete -C "kvshift data b"' | cut -f1 | paste -sd ' ')
    [[ $found == build ]] || fail "fish: $found"
fi
"$KVSHIFT" config completion tcsh >out 2>err && fail "tcsh is accepted"
grep -q "unknown shell 'tcsh', expected bash, zsh or fish" err || fail "$(cat err)"
echo "passed: $count examples, $pages man pages"
