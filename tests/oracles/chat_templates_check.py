"""The stored conversations of tests/chat rendered by transformers: the same bytes.

usage: chat_templates_check.py KVSHIFT"""
import json
import os
import sys

from transformers.utils.chat_template_utils import render_jinja_template

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chat", "data", "chats.json")
CLOCK = "strftime_now"  # the stored outputs have a fixed date


def render(row):
    variables = {"bos_token": "<s>", "eos_token": "</s>", **row["variables"]}
    tools = variables.pop("tools", None)
    return render_jinja_template(
        conversations=[row["messages"]], tools=tools, chat_template=row["template"],
        add_generation_prompt=row["add_generation_prompt"], **variables)[0][0]


def main():
    with open(DATA, encoding="utf-8") as file:
        rows = json.load(file)
    failed = compared = 0
    for row in rows:
        if CLOCK + "('%Y" in row["template"]:
            continue
        try:
            found = render(row)
        except Exception as error:
            found = None
            problem = repr(error)
        compared += 1
        if found != row.get("output"):
            failed += 1
            print(f"{row['name']}:\n  stored: {row.get('output')!r}\n"
                  f"  found:  {found if found is not None else problem!r}", file=sys.stderr)
    print(f"{compared} conversations, {failed} different")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
