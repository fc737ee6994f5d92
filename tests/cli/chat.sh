#!/usr/bin/env bash
# kvshift chat: messages from a pipe and on a terminal, templates, reuse of the session, errors.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
# check PROGRAM: lines of `out` are the list o of JSON objects.
check() { python3 -c "
import json
o = [json.loads(line) for line in open('out')]
$1" || fail "$(cat out)"; }

for i in $(seq 300); do
    echo "<|user|> line $((i % 7)) <|end|><|bot|> the cat sat on the mat, und die Bäume grün.<|end|>"
done >text.txt
"$KVSHIFT" tokenizer train text.txt --vocab 300 --special '<|endoftext|>' --special '<|end|>' \
    --out tok.json >/dev/null 2>&1
"$KVSHIFT" data build text.txt -t tok.json --out corpus --quiet >/dev/null
"$KVSHIFT" train --data corpus --dim 64 --heads 4 --layers 1 --context 256 --batch 4 --steps 60 \
    --lr 4e-3 --out run --quiet >/dev/null
cat >mine.jinja <<'END'
{% for m in messages %}<|{{ 'bot' if m.role == 'assistant' else m.role }}|>{{ m.content }}<|end|>{% endfor %}
{%- if add_generation_prompt %}<|bot|>{% endif %}
END

# A model without a template says how to name one; a wrong template is refused with its line.
echo hello | "$KVSHIFT" chat -m run 2>err && fail "a model without a template chats"
grep -q "'run' has no chat template; name one (chatml, .*--template" err && [[ $(wc -l <err) == 1 ]] ||
    fail "no template: $(cat err)"
printf 'a\n{{ x | nothing }}' >bad.jinja
echo hello | "$KVSHIFT" chat -m run --template bad.jinja 2>err && fail "an unknown filter is accepted"
grep -q "bad.jinja': line 2: filter 'nothing' is not supported" err || fail "bad.jinja: $(cat err)"
echo hello | "$KVSHIFT" chat -m run --template chatlm 2>err && fail "an unknown name is accepted"
grep -q "'chatlm' is no file and no name of a chat template; name one (chatml" err ||
    fail "chatlm: $(cat err)"

# Each answer continues the whole conversation as the template writes it.
printf 'line 3\r\n\nline 4\n/reset\nline 3\n/exit\nline 5\n' |
    "$KVSHIFT" chat -m run --template mine.jinja --temp 0 -n 12 --exact --json >out 2>err
[[ ! -s err ]] || fail "from a pipe: $(cat err)"
check "
assert len(o) == 3 and all(a['role'] == 'assistant' for a in o)
assert {k: v for k, v in o[0].items()} == o[2] | {'fed_tokens': o[0]['fed_tokens']}
assert o[0]['fed_tokens'] == o[0]['prompt_tokens'] > 3
assert 0 < o[1]['fed_tokens'] <= o[1]['prompt_tokens'] - o[0]['prompt_tokens'], o
assert o[0]['finish'] in ('length', 'eos', 'stop') and o[0]['new_tokens'] <= 12
open('first', 'w').write(o[0]['content'])
open('second', 'w').write(o[1]['content'] + '\n')
open('prompt', 'w').write('<|user|>line 3<|end|><|bot|>' + o[0]['content']
                          + '<|end|><|user|>line 4<|end|><|bot|>')"
"$KVSHIFT" generate -m run -f prompt --temp 0 -n 12 --exact --stop '<|end|>' >expected
cmp second expected || fail "the second answer is not that of the whole conversation"

# Without --json the answers are lines; the last line needs no newline.
printf 'line 3\nline 4' | "$KVSHIFT" chat -m run --template mine.jinja --temp 0 -n 12 --exact >lines
cmp <(cat first; echo; cat second) lines || fail "the text differs from that of --json"

# The end of a message ends an answer, and is not part of it.
printf 'line 3\n' | "$KVSHIFT" chat -m run --template mine.jinja --temp 0 -n 200 --json >out
check "assert o[0]['finish'] in ('eos', 'stop') and '<|end|>' not in o[0]['content'], o"
printf 'line 3\n' | "$KVSHIFT" chat -m run --template mine.jinja --temp 0 --stop cat --json >out
check "assert o[0]['finish'] == 'stop' and 'cat' not in o[0]['content'], o"

# A system message, the model's own template, named templates.
cp mine.jinja run/chat_template.jinja
printf 'line 3\n' | "$KVSHIFT" chat -m run --temp 0 -n 12 --exact --json >out
check "assert o[0]['content'] == open('first').read()"
plain=$(python3 -c "import json; print(json.load(open('out'))['prompt_tokens'])")
printf 'line 3\n' | "$KVSHIFT" chat -m run --system 'Be brief.' --temp 0 -n 3 --json >out
check "assert o[0]['prompt_tokens'] > $plain"
for name in chatml llama2 llama3 mistral zephyr phi3 gemma raw; do
    echo hello | "$KVSHIFT" chat -m run --template $name -n 2 >/dev/null || fail "template $name"
done

# A conversation that does not fit, and a template that objects.
python3 -c "print('x ' * 300)" | "$KVSHIFT" chat -m run 2>err && fail "a long message is accepted"
grep -q "the conversation has [0-9]* tokens, the model's context is 256; /reset" err ||
    fail "too long: $(cat err)"
printf '{{ raise_exception("only " ~ messages[0].role) }}' >objects.jinja
echo a | "$KVSHIFT" chat -m run --template objects.jinja 2>err && fail "raise_exception is ignored"
grep -q "the template says: only user" err || fail "raise_exception: $(cat err)"

# On a terminal: a prompt, Ctrl-C stops an answer and not the program, errors do not end it.
cat >terminal.py <<'END'
import os, pty, random, select, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "chat", "-m", "run", "--temp", "0.9", "-n", "100000",
                           "--template", "loops.jinja"])
seen = b""

def expect(text):
    global seen
    end = time.time() + 60
    while text not in seen:
        if time.time() > end:
            sys.exit(f"no {text!r} in {seen!r}")
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            seen += os.read(fd, 4096)
        except OSError:
            sys.exit(f"ended before {text!r}: {seen!r}")
    seen = seen[seen.index(text) + len(text):]

expect(b"Ctrl-C stops an answer")
expect(b"> ")
os.write(fd, b"/nothing\n")
expect(b"/reset begins")
expect(b"> ")
os.write(fd, b"half a li\x03")
expect(b"/exit or Ctrl-D ends")
expect(b"> ")
os.write(fd, ("y " * 400 + "\n").encode())
expect(b"/reset begins a new one")
expect(b"> ")
# Ctrl-C at any moment, also between the end of an answer and the wait for the next line.
for pause in [0] * 100 + [random.uniform(0, 0.02) for _ in range(50)]:
    os.write(fd, b"line 3\n")
    expect(b"line 3\r\n")
    time.sleep(pause)
    os.write(fd, b"\x03")
    expect(b"> ")
    while select.select([fd], [], [], 0.01)[0]: # there may be a second prompt
        seen += os.read(fd, 4096)
    seen = b""
os.write(fd, b"\x04")
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
END
cp mine.jinja loops.jinja
timeout 120 python3 terminal.py "$KVSHIFT" || fail "on a terminal"
