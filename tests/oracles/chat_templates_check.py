"""The stored conversations of tests/chat rendered by transformers: the same bytes.

usage: chat_templates_check.py KVSHIFT [LIBKVSHIFT TEMPLATES]

TEMPLATES is a folder with templates of models, such as models/templates of llama.cpp.  Each that the
library reads renders the messages of the stored conversations, with and without tools, a generation
prompt and thinking: the bytes must be those of transformers, or both must fail.  Those that are
refused are listed.
"""
import ctypes
import itertools
import json
import os
import sys

from transformers.utils.chat_template_utils import render_jinja_template

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chat", "data", "chats.json")
CLOCK = "strftime_now"  # the stored outputs have a fixed date
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
MESSAGES_OF = "roles.jinja: "  # rows whose messages are rendered with other templates


def render(template, messages, variables, add_generation_prompt):
    variables = {**SPECIAL, **variables}
    tools = variables.pop("tools", None)
    return render_jinja_template(
        conversations=[messages], tools=tools, chat_template=template,
        add_generation_prompt=add_generation_prompt, **variables)[0][0]


def check_stored(rows):
    failed = compared = 0
    for row in rows:
        if CLOCK + "('%Y" in row["template"]:
            continue
        try:
            found = render(row["template"], row["messages"], row["variables"],
                           row["add_generation_prompt"])
        except Exception as error:
            found = None
            problem = repr(error)
        compared += 1
        if found != row.get("output"):
            failed += 1
            print(f"{row['name']}:\n  stored: {row.get('output')!r}\n"
                  f"  found:  {found if found is not None else problem!r}", file=sys.stderr)
    print(f"{compared} conversations, {failed} different")
    return failed


# ---- templates of models -------------------------------------------------------------------------

class Err(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("add_generation_prompt", ctypes.c_int),
                ("variables", ctypes.c_char_p), ("now", ctypes.c_int64)]


class Refused(Exception):
    pass


class Template:
    def __init__(self, library, text):
        self.library, self.handle, data = library, ctypes.c_void_p(), text.encode()
        self.call("create", ctypes.byref(self.handle), data, ctypes.c_size_t(len(data)))

    def call(self, name, *arguments):
        err = Err()
        call = {"create": self.library.kvs_chat_template_create,
                "render": self.library.kvs_chat_render}[name]
        if call(*arguments, ctypes.byref(err)) != 0:
            raise Refused(err.message.decode(errors="replace"))

    def render(self, messages, variables, add_generation_prompt):
        options, text, size = Options(), ctypes.c_char_p(), ctypes.c_size_t()
        messages = json.dumps(messages).encode()
        self.library.kvs_chat_options_init(ctypes.byref(options), ctypes.sizeof(options))
        options.add_generation_prompt = add_generation_prompt
        options.variables = json.dumps({**SPECIAL, **variables}).encode()
        self.call("render", ctypes.byref(text), ctypes.byref(size), self.handle, messages,
                  ctypes.c_size_t(len(messages)), ctypes.byref(options))
        found = ctypes.string_at(text, size.value).decode()
        self.library.kvs_text_free(text)
        return found

    def free(self):
        self.library.kvs_chat_template_free(self.handle)


def attempt(function, *arguments):
    """The text, or None, and the error."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def check_template(template, text, conversations, tools):
    """Prints each difference; returns the numbers of renderings and differences."""
    compared = differences = 0
    for (name, messages), with_tools, prompt, thinking in itertools.product(
            conversations, (0, 1), (0, 1), (None, False, True)):
        variables = {"tools": tools} if with_tools else {}
        variables |= {} if thinking is None else {"enable_thinking": thinking}
        theirs, their_error = attempt(render, text, messages, variables, bool(prompt))
        ours, our_error = attempt(template.render, messages, variables, prompt)
        compared += 1
        if ours != theirs:
            differences += 1
            print(f"  {name}, with {', '.join(variables) or 'no variables'}: expected "
                  f"{their_error or theirs!r:.300}, found {our_error or ours!r:.300}")
    return compared, differences


def check_folder(library, folder, rows):
    conversations = {json.dumps(row["messages"]): (row["name"][len(MESSAGES_OF):], row["messages"])
                     for row in rows if row["name"].startswith(MESSAGES_OF)}.values()
    tools = next(row["variables"]["tools"] for row in rows if row["variables"].get("tools"))
    read = refused = wrong = 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".jinja"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        try:
            template = Template(library, text)
        except Refused as message:
            print(f"{name}: refused: {message}")
            refused += 1
            continue
        compared, differences = check_template(template, text, conversations, tools)
        template.free()
        print(f"{name}: {compared} renderings, {differences} different")
        read += 1
        wrong += differences > 0
    print(f"{read} templates read, {wrong} of them with differences; {refused} refused")
    return wrong


def main():
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    with open(DATA, encoding="utf-8") as file:
        rows = json.load(file)
    failed = check_stored(rows)
    if len(sys.argv) == 4:
        library = ctypes.CDLL(sys.argv[2])
        failed += check_folder(library, sys.argv[3], rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
