"""Makes data/chats.json: templates, messages, and what jinja2 makes of them with the settings of
transformers.  Needs jinja2 from PyPI, 3.1.6 or later: python3 tests/chat/make_chats.py"""
import json
import os

import jinja2
import jinja2.ext
import jinja2.sandbox

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
NOW = 1700000000  # 14 November 2023, in every time zone


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(text):
        import datetime
        return datetime.datetime.fromtimestamp(NOW).strftime(text)

    found = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    found.filters["tojson"] = tojson
    found.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return found


def alias(message):
    for name in ("reasoning_content", "thinking", "reasoning"):
        if message.get(name) is not None:
            return {"thinking": message[name], **message, "reasoning_content": message[name]}
    return message


def case(name, template, messages, generate=False, **variables):
    row = {"name": name, "template": template, "messages": messages,
           "add_generation_prompt": generate, "variables": variables}
    shown = {"tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>", **variables}
    try:
        row["output"] = environment().from_string(template).render(
            messages=[alias(m) for m in messages], add_generation_prompt=generate, **shown)
    except Exception as error:  # the C side must fail too
        row["error"] = str(error)[:80]
    return row


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def system(text):
    return {"role": "system", "content": text}


WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather <today> & \"tomorrow\"",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string"}, "days": {"type": ["integer", "null"], "default": 1.5},
        "units": {"type": "array", "items": {"type": "array", "items": {"type": "string"}},
                  "default": []}, "other": {"default": None}}}}}

CHATS = {
    "empty": [],
    "one": [user("Hello?")],
    "turns": [system("  Be brief.\n"), user(" What is 2+2? "), assistant(" 4 \n"), user("And 3+3?")],
    "two users": [user("a"), user("b")],
    "unicode": [user("naïve 日本語 \U0001f600 \u00a0x\u2028y\u0085"), assistant("\u3000été\t\x1c")],
    "markup": [user("<b>&\"'</b> {{ 7 * 7 }} {% if %} {# c #}"), assistant("a\r\nb\n\nc\n")],
    "parts": [{"role": "user", "content": [{"type": "text", "text": " one "}, {"type": "image"},
                                           {"type": "text", "text": "two"}]}],
    "calls": [user("Weather?"),
              {"role": "assistant", "content": None, "tool_calls": [
                  {"function": {"name": "weather", "arguments": {"place": "Graz", "days": 2}}},
                  {"function": {"name": "weather", "arguments": "{\"place\": \"Wien\"}"}}]},
              {"role": "tool", "content": "{\"t\": 3}"}],
    "thinking": [user("q"), {"role": "assistant", "content": "<think>\nhm\n</think>\n\nanswer"},
                 user("r"), {"role": "assistant", "content": "s", "reasoning": " because "},
                 user("")],
}

# Expressions: x is a dict with values of every kind.
X = {"n": 7, "neg": -3, "f": 2.5, "big": 1e16, "small": 1e-5, "t": True, "no": False, "none": None,
     "s": "Hello, World", "e": "", "u": "día ñ", "list": [3, 1, 2], "words": ["b", "A", "c", "a"],
     "d": {"b": 1, "a": {"k": [1, "x", None, True, 1.0]}}, "items": "shadowed", "q": "it's \"x\"\n\t\\",
     "rows": [{"r": "user", "v": 2}, {"r": "bot", "v": 1}, {"r": "user"}], "z": "\u200b\x01é"}
EXPRESSIONS = r"""
x.n + 1
x.n - 2.5
x.n / 2
x.n // 2 ~ x.neg // 2 ~ x.neg % 5 ~ 5 % -3
-x.n
- x.n | abs
x.n * 'ab'
'ab' * x.n
x.list * 2
1 < 2 < 3
1 < 3 < 2
1 == 1.0 == true
'a' < 'b'
x.list < [3, 2]
x.n in x.list
3 in x.list
'lo' in x.s
'b' in x.d
'b' not in x.d
not x.e and x.s
x.e or 'other'
x.t and x.n
x.missing
x.missing.more
x.missing | default('d')
x.e | default('d')
x.e | default('d', true)
x.e | d('d', boolean=true)
x.none
x.none | default('d')
x.t ~ x.no ~ x.none ~ x.f ~ x.big ~ x.small
x.f
x.big
1e3
100000000000000000000
123456789.125
0.1
x.list
x.d
x.q
[x.q, x.z, x.u]
(1,)
(1, 2)
()
{}
{'a': 1, "b": [x.s]}
x.d | tojson
x | tojson
x.d | tojson(indent=4)
x.d | tojson(separators=(',', ':'))
x.d | tojson(sort_keys=true)
x.u | tojson(ensure_ascii=true)
x.z | tojson
[] | tojson(indent=2)
x.items()
x['items']
x.d.items() | list
x.d | items | list
x.d.keys() | list
x.d.values() | list | tojson
x.d.get('b')
x.d.get('zz')
x.d.get('zz', 5)
x.s.upper()
x.s.lower()
x.s | upper
x.u | upper
x.u | lower
x.s | length
x.u | length
x.list | length
x.d | length
x.none | length
x.missing | length
x.s[0]
x.s[-1]
x.s[99]
x.u[1]
x.u[1:3]
x.s[1:4]
x.s[::-1]
x.s[::2]
x.s[-3:]
x.s[:-3]
x.list[1:]
x.list[::-1]
x.list[5:]
x.list[-1]
x.list[-9]
x.list['a']
x.s.split(', ')
x.s.split()
x.s.split('l', 1)
x.s.split('l', maxsplit=2)
' a  b c '.split()
' a  b c '.split(none, 1)
''.split()
''.split('x')
x.s.split('')
x.s.strip('Hd')
x.s.lstrip('He')
x.s.rstrip('dl')
x.s.replace('l', 'L')
x.s.replace('l', 'L', 1)
x.s.replace('', '-')
x.s | replace('o', '0')
x.s.startswith('He')
x.s.startswith(('a', 'H'))
x.s.endswith('x')
x.s.find('World')
x.s.find('zz')
x.u.find('ñ')
x.s.removeprefix('Hello')
x.s.removesuffix('World')
x.s.capitalize()
'hELLO wORLD' | capitalize
', '.join(x.words)
x.words | join(', ')
x.words | join
x.list | join('-')
x.rows | join(',', attribute='r')
x.words | sort
x.words | sort(case_sensitive=true)
x.words | sort(reverse=true)
x.rows[:2] | sort(attribute='v') | tojson
x.words | unique | list
x.words | map('upper') | list
x.words | map('upper') | length
x.rows | map(attribute='r') | join(' ')
x.rows | map(attribute='v', default=0) | list
x.rows | selectattr('r', 'equalto', 'user') | list | length
x.rows | selectattr('v') | map(attribute='v') | list
x.rows | rejectattr('v', 'defined') | list
x.list | select('odd') | list
x.list | reject('gt', 1) | list
x.list | select('in', [1, 2]) | list
x.list | first
x.list | last
[] | first
x.s | first
x.list | reverse | list
x.s | reverse
x.list | min
x.list | max
x.d | dictsort
{'B': 1, 'a': 2} | dictsort
'5' | int + 1
'x' | int
'x' | int(3)
'3.7' | int
x.f | int
x.list | string
x.n | string + 'x'
'a\nb\n\nc' | indent(2)
'a\nb' | indent(2, true)
'a\nb\n' | indent
'a\nb\rc\r\nd'.splitlines()
'  x ' | trim
'xxaxx' | trim('x')
x.s is string
x.n is string
x.n is number and x.t is number
x.n is integer and x.t is not integer
x.f is float
x.t is boolean
x.t is true
x.n is true
x.no is false
x.none is none
x.missing is none
x.missing is defined
x.missing is undefined
x.d is mapping
x.list is mapping
x.list is sequence
x.d is sequence
x.missing is sequence
x.missing is iterable
x.s is iterable
x.n is iterable
x.n is odd
x.n is even
x.n is divisibleby 7
x.n is divisibleby(3)
x.n is eq 7
x.n is in x.list
x.n is not in [7]
x.s is equalto('Hello, World')
'a' if x.n > 5 else 'b'
'a' if x.n > 9
'a' if false else 'b' if false else 'c'
range(3) | list
range(5, 1, -2) | list
range(3) | length
range(3)[1]
x.n if x.n is defined and x.n else 0
'a' 'b' "c"
'\x41\u00e9\n\t\\\'\q'
1, 2
x['n']
x["d"]['a'].k[0]
x.s + 1
x.s + x.missing
x.missing + 1
x.missing == x.other
x.missing ~ 'a'
x.n > 'a'
x.none > 1
x.d == {'b': 1, 'a': {'k': [1, 'x', none, true, 1.0]}}
[1, 2] == (1, 2)
[1] + [2]
[1] + (2,)
x.n.foo
x.s.foo
x.s.foo.bar
x.s.upper is defined
x.list.append is defined
raise_exception('no')
raise_exception is defined
strftime_now('%Y-%m')
dict(a=1, b='x')
namespace(a=1).a
x.s(1)
true and false or 'x'
not true == false
1 in [1] and 2 not in [1]
- 2 + 3
-2 * 3 - -1
2 - -2
7 % 3 * 2
10 - 3 - 2
100 / 7
1.0 * 3
3 // 0
x.words[0] ~ x.words[1:] | length
(x.words | length) > 3 and x.words[0] == 'b'
x.e.strip() or none
x.z
messages[0].content
messages | map(attribute='role') | list
none
True ~ False ~ None
[none, true]
""".strip().split("\n")

STATEMENTS = {
    "scope of set": "{% set a = 1 %}{% for i in [1, 2] %}{{ a }}{% set a = 5 %}{{ a }}{% endfor %}{{ a }}",
    "set in if": "{% if true %}{% set a = 1 %}{% endif %}{{ a }}",
    "namespace": "{% set ns = namespace(n=0, s='') %}{% for i in range(4) %}{% set ns.n = ns.n + i %}"
                 "{% set ns.s = ns.s ~ i %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.zz is defined }}",
    "no namespace": "{% set d = {} %}{% set d.x = 1 %}",
    "tuple targets": "{% for a, b in [[1, 2], 'xy', (3, 4)] %}{{ a }}-{{ b }};{% endfor %}"
                     "{% set a, b = 'pq' %}{{ b }}{{ a }}",
    "bad tuple": "{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}",
    "loop": "{% for i in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
            "{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ i }}"
            "{{ loop.previtem }}{{ loop.nextitem }}{% endfor %}{{ loop is defined }}",
    "loop if": "{% for i in range(6) if i is odd %}{{ loop.index }}:{{ i }} {% else %}none{% endfor %}"
               "{% for i in range(6) if i > 9 %}x{% else %}none{% endfor %}",
    "nested loops": "{% for i in range(2) %}{% set o = loop %}{% for j in range(2) %}"
                    "{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "controls": "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}"
                "{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "macro": "{% macro m(a, b=a ~ '!', c='z') %}{{ a }}|{{ b }}|{{ c }}{% endmacro %}"
             "{{ m(1) }} {{ m(1, 2) }} {{ m(b=3, a=4) }} {{ m() }} {{ m(1, c=m(2)) }}",
    "macro too many": "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "macro unknown": "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}",
    "macro twice": "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "macro closure": "{% set v = 1 %}{% macro m() %}{{ v }}{% endmacro %}{% set v = 2 %}{{ m() }}",
    "macro late": "{{ m() }}{% macro m() %}x{% endmacro %}",
    "macro recursive": "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "generator once": "{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}",
    "view": "{% set v = {'a': 1}.items() %}{{ v | length }}{{ v is sequence }}{{ v | first }}{{ v[0] }}{{ v | list }}{{ v | list }}",
    "set block": "{% set a %} x {{ 1 }} {% endset %}[{{ a }}]{% set b | upper | trim %} x {% endset %}[{{ b }}]",
    "filter block": "{% filter upper | replace('A', 'b') %}aBc{% endfilter %}",
    "set block scope": "{% set a = 1 %}{% set b %}{% set a = 2 %}{{ a }}{% endset %}{{ a }}{{ b }}",
    "generation scope": "{% for m in messages %}{% generation %}{% set q = 1 %}{{ loop.index }}{{ m.content }}{% endgeneration %}{{ q }}{% endfor %}",
    "trim": "a\n  {% if true %}\n  b\n  {% endif %}\nc\n{{ 1 }}\nd\n\n",
    "trim end": "x{{ 1 }}\n",
    "trim signs": "a \n {%- if true -%} \n b {%+ if true +%}\n c{% endif %}{% endif -%} \n d {{- 1 -}} \n e {{ 2 }} \n",
    "trim plus": "a\n   {%+ if true %}b{% endif +%}\n   {% if true %}c{% endif %}  \n d",
    "comments": "a {# x #}\n b {#- y -#} c\n  {# z #}\nd {#+ w +#}\ne {# {% if %} {{ #}",
    "first line": "  {% if true %}x{% endif %}\n",
    "after output": "{{ 1 }}  {% if true %}x{% endif %}",
    "after block": "{% if true %}  {% endif %}  {% if true %}x{% endif %}",
    "crlf": "a\r\n{% if true %}\r\nb\r{% endif %}\r\nc\r\n",
    "unicode space": "a\u00a0{%- if true -%}\u3000b{% endif %}",
    "braces": "{ {{ '{' }} } {{ {'a': {'b': 1}} }} {% raw_ %}" [:-10],
    "strings with tags": "{{ '%}' }}{{ \"}}\" }}{% if '%}' == '%}' %}y{% endif %}",
    "elif": "{% if false %}a{% elif 0 %}b{% elif 1 %}c{% else %}d{% endif %}",
    "if tuple": "{% if 1, 0 %}a{% endif %}",
    "safe": "{{ '<b>' | safe }}{{ messages | tojson | safe }}",
    "item assignment": "{% set x = messages[0] %}{{ x.content }}{{ x['role'] }}",
    "undefined loop": "{% for i in nothing %}x{% else %}y{% endfor %}",
    "loop none": "{% for i in none %}x{% endfor %}",
    "loop dict": "{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}",
    "float loop": "{{ [1.0, 2.50, 1e22, 1.5e-7, 123456789012345678.0] }}",
    "dict update": "{% set d = dict(a=1) %}{{ d }}{{ d.a }}",
    "is chain": "{% if messages is defined and messages is not none and messages is sequence %}y{% endif %}",
    "test then or": "{% if x is not defined or x is none %}y{% endif %}",
    "deep": "{{ ((((((1)))))) }}{{ [[[[[[]]]]]] }}",
}


def cases():
    templates = {}
    for name in sorted(os.listdir(os.path.join(FOLDER, "templates"))):
        with open(os.path.join(FOLDER, "templates", name), encoding="utf-8", newline="") as file:
            templates[name] = file.read()
    for file, text in templates.items():
        for name, messages in CHATS.items():
            for generate in (False, True):
                yield case(f"{file}: {name}", text, messages, generate)
        yield case(f"{file}: tools", text, CHATS["turns"], True, tools=[WEATHER])
        yield case(f"{file}: no thinking", text, CHATS["turns"], True, enable_thinking=False)
    for expression in EXPRESSIONS:
        yield case(expression, "{{ " + expression + " }}", CHATS["turns"], x=X)
    for name, text in STATEMENTS.items():
        yield case(name, text, CHATS["turns"])


def main():
    with open(os.path.join(FOLDER, "chats.json"), "w", encoding="utf-8") as file:
        rows = [json.dumps(row, ensure_ascii=True) for row in cases()]
        file.write("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
