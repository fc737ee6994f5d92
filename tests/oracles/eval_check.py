#!/usr/bin/env python3
"""Compares 'kvshift eval' with lm-evaluation-harness 0.4.13 on the same models and documents.

usage: eval_check.py KVSHIFT [--only TEXT] [--limit N] [--keep DIR]

The models are eval-reference/plain and eval-reference/shifted of $KVSHIFT_SHARED/data, converted by
the command; the harness runs them with transformers, in float32.  Compared are the results (means,
standard errors, number of documents, versions, hashes of tasks, groups) and every sample: document,
target, texts of all requests, hashes, log-likelihoods within 1e-4 + 1e-6 |x|, greedy flags, generated
texts and metrics.  A metric may differ where the two best choices of a document are within 2e-4; such
documents are listed.  minerva_math has the metric math_verify in the harness only.  Exits 77 where a
module or the data is missing.
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import harness

try:
    import lm_eval  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

CLOSE = 2e-4
THEIRS = "math_verify"  # a metric that only the harness has
CASES = [  # name, tasks, shots, limit
    ("lambada", ["lambada_openai"], 0, 20),
    ("winogrande 5-shot", ["winogrande"], 5, 20),
    ("hellaswag", ["hellaswag"], 0, 20),
    ("arc 2-shot", ["arc_easy", "arc_challenge"], 2, 20),
    ("mmlu 5-shot", ["mmlu_anatomy", "mmlu_astronomy", "mmlu_formal_logic"], 5, 12),
    ("mmlu cloze", ["mmlu_anatomy_continuation", "mmlu_astronomy_continuation"], 0, 12),
    ("cmmlu 5-shot", ["cmmlu_agronomy", "cmmlu_world_religions"], 5, 12),
    ("math", ["hendrycks_math_algebra", "hendrycks_math_precalc"], 0, 4),
    ("minerva", ["minerva_math_algebra"], 4, 4),
]


class Comparison:
    def __init__(self, name):
        self.name, self.wrong, self.near, self.samples, self.largest = name, 0, 0, 0, 0.0

    def say(self, text):
        self.wrong += 1
        if self.wrong <= 12:
            print(f"{self.name}: {text}", flush=True)

    def same(self, what, theirs, ours):
        if theirs != ours:
            self.say(f"{what}: expected {str(theirs)[:200]!r}, got {str(ours)[:200]!r}")


def near_tie(sample, normalized):
    """Whether rounding may change which of the choices is best."""
    values = [float(response[0][0]) for response in sample["resps"]]
    if normalized:
        values = [v / max(1, len(a["arg_1"]) - 1) for v, a in zip(values, sample["arguments"].values())]
    best = sorted(values, reverse=True)
    return len(best) > 1 and best[0] - best[1] <= CLOSE


def compare_sample(c, task, theirs, ours):
    where = f"{task} document {theirs['doc_id']}"
    c.samples += 1
    for key in ("doc_id", "doc", "target", "arguments", "filter", "doc_hash", "prompt_hash", "target_hash"):
        c.same(f"{where}, {key}", theirs[key], ours.get(key))
    metrics = [metric for metric in theirs["metrics"] if metric != THEIRS]
    c.same(f"{where}, metrics", metrics, ours.get("metrics"))
    if isinstance(theirs["resps"][0][0], str):
        c.same(f"{where}, text", theirs["resps"], ours["resps"])
        c.same(f"{where}, filtered text", theirs["filtered_resps"], ours["filtered_resps"])
    else:
        c.same(f"{where}, requests", len(theirs["resps"]), len(ours["resps"]))
        for a, b in zip(theirs["resps"], ours["resps"]):
            expected, found = float(a[0][0]), float(b[0][0])
            c.largest = max(c.largest, abs(expected - found))
            if not abs(expected - found) <= 1e-4 + 1e-6 * abs(expected):
                c.say(f"{where}: log-likelihood {expected}, got {found}")
            c.same(f"{where}, greedy", a[0][1], b[0][1])
    for metric in metrics:
        if metric == "perplexity":
            continue  # the log-likelihood itself
        if theirs[metric] != ours.get(metric):
            if "acc" in metric and near_tie(theirs, metric == "acc_norm"):
                c.near += 1
                print(f"{c.name}: {where}: {metric} differs, near tie")
            else:
                c.same(f"{where}, {metric}", theirs[metric], ours.get(metric))


def compare_results(c, theirs, ours):
    for task, expected in theirs["results"].items():
        found = ours["results"].get(task, {})
        for key, value in expected.items():
            if key.startswith(THEIRS):
                continue
            if not isinstance(value, float) or key not in found or not isinstance(found[key], float):
                if key not in ("sample_count",):
                    c.same(f"{task}, {key}", value, found.get(key))
                continue
            # Equal decisions give equal means; likelihoods are float32 sums.
            limit = 1e-12 if not key.startswith("perplexity") else 2e-4 * abs(value)
            if not math.isclose(value, found[key], rel_tol=0, abs_tol=limit) and not c.near:
                c.say(f"{task}, {key}: expected {value!r}, got {found[key]!r}")
    for key in ("versions", "n-shot", "n-samples", "task_hashes", "higher_is_better"):
        for task, value in theirs[key].items():
            if isinstance(value, dict):
                value.pop(THEIRS, None)
            c.same(f"{key} of {task}", value, ours.get(key, {}).get(task))


def run_case(c, command, model, data, place, case, limit):
    _, tasks, shots, own_limit = case
    limit = limit or own_limit
    folder = harness.write_tasks(place, tasks, data)
    harness.evaluate(model, tasks, folder, shots, limit, out=os.path.join(place, "theirs"))
    subprocess.run([command, "eval", "-m", model, "--tasks", ",".join(tasks), "--data", data, "--num-fewshot",
                    str(shots), "--limit", str(limit), "--out", os.path.join(place, "ours"), "--quiet"],
                   check=True, stdout=subprocess.DEVNULL)
    theirs, their_samples = harness.read_files(os.path.join(place, "theirs"))
    ours, our_samples = harness.read_files(os.path.join(place, "ours"))
    for task in tasks:
        c.same(f"{task}, documents", len(their_samples[task]), len(our_samples.get(task, [])))
        for a, b in zip(sorted(their_samples[task], key=lambda s: s["doc_id"]), our_samples.get(task, [])):
            compare_sample(c, task, a, b)
    compare_results(c, theirs, ours)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvshift")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--limit", type=int, help="documents of each task")
    parser.add_argument("--keep", metavar="DIR", help="work in this folder and keep it")
    options = parser.parse_args()
    data = os.path.abspath(os.path.join(os.environ.get("KVSHIFT_SHARED", "../shared"), "data"))
    reference = os.path.join(data, "eval-reference")
    if not os.path.isdir(reference):
        print(f"skipped: no models in '{data}'")
        return 77
    failed, done = 0, 0
    with tempfile.TemporaryDirectory() as temporary:
        place = os.path.abspath(options.keep or temporary)
        data = harness.with_shots(os.path.join(place, "data"), data)
        for kind in ("plain", "shifted"):
            model = os.path.join(place, kind)
            subprocess.run([options.kvshift, "convert", os.path.join(reference, kind), model, "--overwrite"],
                           check=True, capture_output=True)
            for case in CASES:
                c = Comparison(f"{kind} {case[0]}")
                if options.only not in c.name:
                    continue
                try:
                    run_case(c, options.kvshift, model, data, os.path.join(place, c.name.replace(" ", "-")), case, options.limit)
                except subprocess.CalledProcessError as problem:
                    c.say(f"exit code {problem.returncode}: {' '.join(problem.cmd)}")
                print(f"{c.name}: {c.samples} documents, largest difference {c.largest:.1e}, {c.near} near ties"
                      f"{f', {c.wrong} differences' if c.wrong else ''}", flush=True)
                failed += bool(c.wrong)
                done += 1
    print(f"{done - failed} of {done} cases agree")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
