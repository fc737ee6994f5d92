#!/usr/bin/env python3
"""Makes math_grades.jsonl: short texts with the grades that lm-evaluation-harness gives them.

usage: make_math_grades.py MATH_TEST.jsonl [COUNT [SEED]] > math_grades.jsonl

Needs lm-eval[math]==0.4.13.  Answers are taken from the solutions of the file, one JSON object with
"solution" per line, and changed at random; answers and texts with traps are added.  A line of the
result is one object:

  text, solution   what was generated, and a solution with the right answer
  hendrycks        1 or 0 (exact_match of hendrycks_math); null if the solution is refused
  minerva          the same for minerva_math
  answer, gold     both answers as minerva_math normalizes them
  algebra          true: only symbolic algebra can compare the two answers
"""
import json
import random
import re
import sys
from fractions import Fraction

from lm_eval.tasks.hendrycks_math import utils as hendrycks
from lm_eval.tasks.minerva_math import utils as minerva

LONGEST = 120
SENTENCE = "Final Answer: The final answer is %s. I hope it is correct."

# Pieces that rules of the graders refer to.
PIECES = (
    r"\frac|\dfrac|\tfrac|frac|\sqrt|\sqrt[3]|sqrt[|{|}|$|$|=|/|\text{ |\text{|\text{ cm}|\text{s}|"
    r"\text{and}|\text{m}|\mbox{|\textbf{|\overline{|\boxed{|\boxed |\!|\;|\ |\\|\left|\right|\left(|"
    r"\right)|^\circ|^{\circ}|\$|\%|\ldots|\dots|\mathrm{th}|{,}|,\!|,|.|.5|0|1|2|5|12|-|+| |  |x|xy|"
    r"an |a |cm|km|ft|feet|square|units|inches|points|dollars|hours|integers|degrees|sue|\pi|\leftarrow|"
    r"\in|(|)|[|]|é|１|٣|　|_|\|;|:|%|^2|^3"
).split("|") + ["\n", "\t", "\x1c", "|", '"']


def numbers(rng):
    """Two numbers that are often equal, each written in one of many ways."""
    above, below = rng.randint(-40, 40), rng.choice([1, 2, 3, 4, 5, 8, 10, 20, 100])
    return [write_number(rng, above * k, below * k, above / below) for k in rng.choices([1, 1, 2, 3, 10], k=2)]


def write_number(rng, above, below, value):
    sign = "-" if above < 0 else ""
    forms = [r"\frac{%d}{%d}" % (above, below), r"%s\frac{%d}{%d}" % (sign, abs(above), below),
             "%d/%d" % (above, below), r"%s\dfrac{%d}{%d}" % (sign, abs(above), below)]
    if abs(above) < 10 and below < 10:
        forms.append(r"%s\frac%d%d" % (sign, abs(above), below))
    if value == int(value):
        forms += [str(int(value))] * 4 + ["%.1f" % value, "%s0%d" % (sign, abs(int(value)))]
    text = repr(value)
    if len(text) < 12 and "e" not in text:
        forms += [text, text + "0", text.replace("0.", ".", 1), text[:-1]]
    forms += ["%.3f" % value, "%g,000" % value, r"%s\%%" % text[:8]]
    return rng.choice(forms)


def mutate(rng, text):
    for _ in range(rng.choice([0, 1, 1, 2, 3, 5])):
        at = rng.randint(0, len(text))
        kind = rng.random()
        if kind < 0.6:
            text = text[:at] + rng.choice(PIECES) + text[at:]
        elif kind < 0.8:
            text = text[:at] + text[at + 1:]
        else:
            text = text[:at] + text[at:at + 3] + text[at:]
    return text


def known_changes(rng, text):
    changes = [text, " " + text + " ", text.replace(r"\frac", r"\dfrac"), text.replace(r"\frac", r"\tfrac"),
               r"\left" + text + r"\right", "x=" + text, "x = " + text, "xyz=" + text, text + r"\text{ cm}",
               text + " cm", text + r"^\circ", text + ".", text + r"\%", r"\$" + text, text.replace(",", ""),
               text.replace("{", "").replace("}", ""), re.sub(r"\\frac\{(\d)\}\{(\d)\}", r"\\frac\1\2", text),
               re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", text), re.sub(r"\\sqrt\{(\d)\}", r"\\sqrt\1", text),
               text.replace(" ", ""), r"\boxed{" + text + "}", r"\text{" + text + "}", text + r"\text{ and }5"]
    return rng.choice(changes)


def wrap(rng, text):
    return rng.choice([
        "%s", "$%s$", "The answer is $%s$.", "$a$ and $%s$", "$%s", SENTENCE, SENTENCE,
        SENTENCE % "$%s$", SENTENCE % "$%s$", SENTENCE % "$%s$", "Final Answer: The final answer is $%s$.",
        "Final Answer: The final answer is $%s$. ", "Final Answer: The final answer is $%s$! I hope it is correct!",
        "so\n" + SENTENCE % "$%s$" + "\n" + SENTENCE % "$7$", "Final Answer: The final answer is\n$%s$. I hope it is correct.",
    ]).replace("%s", text)


TRAPS = [  # text, solution
    (" 1/2", r"\boxed{\frac{1}{2}}"), ("0.5", r"\boxed{\frac12}"), ("x /2", r"\boxed{x/2}"), ("05/3", r"\boxed{5/3}"),
    (r"\frac", r"\boxed{\frac}"), (r"5 \text{ cm}", r"\boxed{5}"), ("x=5", r"\boxed{5}"), (" xy=5", r"\boxed{5}"),
    (".5", r"\boxed{\frac{1}{2}}"), ("5.", r"\boxed{5}"), ("1,000", r"\boxed{1000}"),
    ("5", "\\boxed 5"), ("5", "\\boxed 5$ and \\boxed 6$ then"), ("6", "\\boxed 5$ and \\boxed 6$ then"),
    ("5", r"\boxed{4} or \boxed{5}"), ("5", r"\boxed{5"), ("5", r"\fbox{5}"), ("5", "5"), ("5", r"\boxed5{}"),
    ("5", r"\boxed{\boxed{5}}"), ("{5}", r"\boxed{{5}}"), ("a{b}c", r"\boxed{a{b}c} }"), ("", r"\boxed{}"),
    ("$$", r"\boxed{}"), ("$$$", r"\boxed{$}"), ("$", r"\boxed{$}"), (r"\sqrt", r"\boxed{\sqrt}"),
    (r"\sqrt\sqrt2", r"\boxed{\sqrt\sqrt2}"), (r"\sqrté", r"\boxed{\sqrt{é}}"), (r"\fracé", r"\boxed{\fracé}"),
    (r"\fracéü", r"\boxed{\frac{é}{ü}}"), ("éé=5", r"\boxed{5}"), ("ééé=5", r"\boxed{5}"), ("+1/2", r"\boxed{1/2}"),
    ("1_0/2", r"\boxed{10/2}"), ("１/2", r"\boxed{1/2}"), ("\t1/2", r"\boxed{1/2}"), ("-0/2", r"\boxed{-0/2}"),
    ("\x1c1/2", "\\boxed{\x1c1/2 }"), ("\x1c１/2", "\\boxed{\x1c１/2 }"), ("1/2/3", r"\boxed{1 /2/3}"), ("1__0/2", r"\boxed{1__0/2 }"), ("_1/2", r"\boxed{_1/2 }"),
    ("/2", r"\boxed{/2 }"), ("9/0", r"\boxed{\frac{9}{0}}"), ("-1/2", r"\boxed{\frac{-1}{2}}"), ("--1/2", r"\boxed{--1/2 }"),
    (r"1 \text{ a} \text{ b}", r"\boxed{1}"), (r"1 \text{ a} \text{ b}", r"\boxed{1 \text{ a} \text{ b}}"),
    (r"90^{\circ}", r"\boxed{90^\circ}"), (r"\\frac{1}{2}", r"\boxed{\frac{1}{2}}"), (r"{.5}", r"\boxed{{0.5}}"),
    (SENTENCE % "$x=2\\pi\\text{ cm}$", r"\boxed{2\pi}"), (SENTENCE % "100,000", r"\boxed{100000}"),
    (SENTENCE % "0,1", r"\boxed{0,1}"), (SENTENCE % "0", r"\boxed{0,1}"), (SENTENCE % r"\frac12", r"\boxed{\frac{1}{2}}"),
    (SENTENCE % r"\sqrt[3]{8}", r"\boxed{\sqrt[3]8}"), (SENTENCE % r"12\text{ and }5", r"\boxed{12,5}"),
    (SENTENCE % "3 ft", r"\boxed{3}"), (SENTENCE % r"\left(1,\frac92\right)", r"\boxed{\left(1,\frac{9}{2}\right)}"),
    (SENTENCE % "(1,2)", r"\boxed{(2,1)}"), (SENTENCE % "[0,1)", r"\boxed{[0,1]}"), (SENTENCE % "(1,000)", r"\boxed{1000}"),
    (SENTENCE % r"\begin{pmatrix}1\\2\end{pmatrix}", r"\boxed{\begin{pmatrix}2\\1\end{pmatrix}}"),
    (SENTENCE % "", r"\boxed{}"), (SENTENCE % "", r"\boxed{5}"), (SENTENCE % "5", r"\boxed{}"), (SENTENCE % ".5", r"\boxed{0.5}"),
    (SENTENCE % "0.5", r"\boxed{\frac{1}{2}}"), (SENTENCE % "00", r"\boxed{0}"), (SENTENCE % "-0", r"\boxed{0}"),
    (SENTENCE % "0.3333333333333333", r"\boxed{\frac{1}{3}}"), (SENTENCE % "0.333333333", r"\boxed{\frac{1}{3}}"),
    (SENTENCE % "12345678901234567890", r"\boxed{12345678901234567891}"), (SENTENCE % "50%", r"\boxed{50\%}"),
    (SENTENCE % r"\frac{4}{6}", r"\boxed{\frac{-2}{-3}}"), (SENTENCE % "5é", r"\boxed{5}"), (SENTENCE % "5 cmé", r"\boxed{5}"),
    ("Final Answer: The final answer is 5é I hope it is correct.", r"\boxed{5}"),
    ("Final Answer: The final answer is. I hope it is correct.", r"\boxed{5}"),
    ("Final Answer: The final answer is I hope it is correct.", r"\boxed{5}"),
    ("Final Answer: The final answer is 5. I hope it is correct\n", r"\boxed{5}"),
    ("Final Answer: The final answer is 5. I hope it is correct", r"\boxed{5}"),
]


def is_number(text):
    return re.fullmatch(r"-?([0-9]+(\.[0-9]+)?|(0+|[1-9][0-9]*)/0*[1-9][0-9]*|\\[dt]?frac\{-?[0-9]+\}\{-?0*[1-9][0-9]*\})", text)


def value(text):
    return Fraction(re.sub(r"\\[dt]?frac\{(-?)([0-9]+)\}\{(-?)([0-9]+)\}", r"\1\3\2/\4", text).replace("--", ""))


def too_close(a, b):
    """Long numbers whose difference depends on rounding."""
    long = any(sum(c in "0123456789" for c in text) > 9 for text in (a, b))
    return long and abs(value(a) - value(b)) <= Fraction(1, 10**12) * max(abs(value(a)), abs(value(b)))


def cannot_be_read(text):
    """Texts of these forms are known to be refused by sympy."""
    number = r"-?([0-9]*\.?[0-9]*|[0-9]+/[0-9]+|\\[dt]?frac\{-?[0-9]+\}\{-?[0-9]+\})"
    if not text or re.fullmatch(r"-?(\.[0-9]+|[0-9]+\.)", text) or (re.search("[0-9]", text) and re.fullmatch(number + r"\\?%", text)):
        return True
    if re.search(r"(?<![0-9.])0+[1-9]", text) and re.fullmatch(number, text) and "." not in text:
        return True
    if text.startswith(r"\begin{") and r"\\" in text.split(",")[0]:
        return True
    inside = re.match(r"(\\left)?[(\[]", text)
    depth = 0
    for i, c in enumerate(text if inside else ""):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 1 and not (text[i - 1] in "0123456789" and re.match("[0-9]{3}", text[i + 1:])):
            return True
        if depth == 0 and i >= inside.end() - 1:
            return False
    return False


def needs_algebra(answer, gold):
    if (answer and answer == gold) or answer == "[invalidanswer]" or cannot_be_read(answer) or cannot_be_read(gold):
        return False
    if is_number(answer) and is_number(gold) and not too_close(answer, gold):
        return False
    return not all(re.fullmatch("-?[1-9][0-9]*", s) for s in (answer, gold))


def grade(text, solution):
    row = {"text": text, "solution": solution, "hendrycks": None, "minerva": None}
    try:
        hendrycks.remove_boxed(hendrycks.last_boxed_only_string(solution))
    except (AssertionError, TypeError):
        return row
    row["hendrycks"] = hendrycks.process_results({"solution": solution}, [text])["exact_match"]
    answer = minerva.normalize_final_answer(minerva.get_unnormalized_answer(text))
    gold = minerva.normalize_final_answer(minerva.remove_boxed(minerva.last_boxed_only_string(solution)))
    row.update(minerva=int(minerva.is_equiv(answer, gold)), answer=answer, gold=gold)
    if needs_algebra(answer, gold):
        row["algebra"] = True
    return row


def rows(path, count, seed):
    rng = random.Random(seed)
    golds = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            boxed = hendrycks.last_boxed_only_string(json.loads(line)["solution"])
            golds.append(hendrycks.remove_boxed(boxed))
    golds = [g for g in golds if 0 < len(g) <= 60]
    for text, solution in TRAPS:
        yield grade(text, solution)
    made = len(TRAPS)
    while made < count:
        kind = rng.random()
        gold = rng.choice(golds)
        if kind < 0.3:
            answer, gold = numbers(rng)
        elif kind < 0.4:
            answer = rng.choice(golds)
        elif kind < 0.7:
            answer = known_changes(rng, gold)
        else:
            answer = mutate(rng, gold)
        if rng.random() < 0.15:
            gold = mutate(rng, gold)
        text = wrap(rng, answer)
        solution = rng.choice([r"\boxed{%s}", r"\boxed{%s}", r"so $x = \boxed{%s}$.", "\\boxed %s$"]).replace("%s", gold)
        if len(text) <= LONGEST and len(solution) <= LONGEST:
            yield grade(text, solution)
            made += 1


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 900
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    for row in rows(sys.argv[1], count, seed):
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
