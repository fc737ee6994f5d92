#!/usr/bin/env python3
"""Runs OpenAI's Python package and lm-evaluation-harness against 'kvshift serve'.

usage: serve_check.py KVSHIFT [--only TEXT] [--limit N]

The package: completions, chats, streams, log-probabilities, errors, repeated requests.  The harness:
its model local-completions on the models eval-reference/plain and eval-reference/shifted of
$KVSHIFT_SHARED/data, one request after the other and eight at a time, against 'kvshift eval' on the
same documents, as eval_check.py compares them; MMLU with five examples, with and without stored
prefixes.  Exits 77 where a module or the data is missing.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serve"))
import harness
from eval_check import Comparison, compare_sample
from server import Server

try:
    import lm_eval
    import openai
    from lm_eval.models.openai_completions import LocalCompletionsAPI
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# No request is longer than the context: the harness cuts longer ones to another length than 'kvshift
# eval', because the server has to generate one token after each.
CASES = [  # name, tasks, shots, documents
    ("lambada", ["lambada_openai"], 0, 20),
    ("winogrande 2-shot", ["winogrande"], 2, 20),
    ("hellaswag", ["hellaswag"], 0, 20),
    ("arc", ["arc_easy", "arc_challenge"], 0, 20),
    ("mmlu cloze", ["mmlu_anatomy_continuation", "mmlu_astronomy_continuation"], 0, 12),
    ("cmmlu", ["cmmlu_agronomy", "cmmlu_world_religions"], 0, 12),
]


# ---- OpenAI's package ----------------------------------------------------------------------------

def check_package(server):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    model = client.models.list().data[0].id
    assert client.models.retrieve(model).id == model
    fields = dict(model="any", prompt="Once upon a time", max_tokens=12, seed=3)
    whole = client.completions.create(**fields, logprobs=2)
    assert whole.choices[0].finish_reason in ("length", "stop") and whole.model == model
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert len(whole.choices[0].logprobs.token_logprobs) == whole.usage.completion_tokens
    parts = list(client.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
    assert "".join(p.choices[0].text for p in parts if p.choices) == whole.choices[0].text
    assert parts[-1].usage.completion_tokens == whole.usage.completion_tokens
    greedy = [client.completions.create(**dict(fields, temperature=t), extra_body=extra).choices[0].text
              for t, extra in ((0, {}), (1, {"top_k": 1}))]
    assert greedy[0] == greedy[1]
    many = client.completions.create(**dict(fields, prompt=["a", "b"]), n=2)
    assert [c.index for c in many.choices] == [0, 1, 2, 3]

    chat = dict(model="any", messages=[{"role": "user", "content": "Once upon"}], max_completion_tokens=8, seed=1)
    answer = client.chat.completions.create(**chat, logprobs=True, top_logprobs=3).choices[0]
    assert "".join(t.token for t in answer.logprobs.content) == answer.message.content
    assert all(len(t.top_logprobs) == 3 and bytes(t.bytes) for t in answer.logprobs.content)
    parts = list(client.chat.completions.create(**chat, stream=True))
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(p.choices[0].delta.content or "" for p in parts) == answer.message.content

    before = server.metrics()['answers_total{path="/v1/completions",status="400"}'] if (
        'answers_total{path="/v1/completions",status="400"}' in server.metrics()) else 0
    for bad, param in (({"max_tokens": 10**6}, "max_tokens"), ({"temperature": 9}, "temperature"),
                       ({"prompt": "x " * 5000}, "prompt")):
        try:
            client.completions.create(**dict(fields, **bad))
            raise AssertionError(f"{bad} is accepted")
        except openai.BadRequestError as error:
            assert error.param == param and isinstance(error.code, str), error
    try:
        client.models.retrieve("other")
        raise AssertionError("another model")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
    after = server.metrics()['answers_total{path="/v1/completions",status="400"}']
    assert after == before + 3, "a request that fails was repeated"
    with client.completions.create(**dict(fields, max_tokens=400), stream=True,
                                   extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))  # and leave
    assert server.wait_idle()
    print(f"openai {openai.__version__}: completions, chats, streams and errors are as expected")


def check_queue(command, model):
    """429 has a time after which the package tries again, and succeeds."""
    with Server(command, model, "--slots", "1", "--queue", "0") as server:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=5)
        first = client.completions.create(model="any", prompt="a", max_tokens=500, stream=True,
                                          extra_body={"ignore_eos": True, "n": 2})
        next(iter(first))
        assert client.completions.create(model="any", prompt="b", max_tokens=1).choices
        assert server.metrics()['answers_total{path="/v1/completions",status="429"}'] >= 1


# ---- the harness ---------------------------------------------------------------------------------

class TimedCompletions(LocalCompletionsAPI):
    """Notes the seconds that the requests take."""

    def _loglikelihood_tokens(self, requests, **named):
        began = time.perf_counter()
        try:
            return super()._loglikelihood_tokens(requests, **named)
        finally:
            self.seconds = time.perf_counter() - began


def evaluate_both(c, command, model, port, data, place, case, limit, concurrent, context):
    """Compares the samples of both; returns the seconds of the harness's requests."""
    _, tasks, shots, own_limit = case
    limit = limit or own_limit
    folder = harness.write_tasks(place, tasks, data)
    client = TimedCompletions(
        base_url=f"http://127.0.0.1:{port}/v1/completions", model="any", tokenizer=model,
        tokenizer_backend="huggingface", tokenized_requests=True, add_bos_token=True,
        max_length=context, num_concurrent=concurrent, batch_size=1)
    harness.evaluate(client, tasks, folder, shots, limit, out=os.path.join(place, "theirs"))
    subprocess.run([command, "eval", "-m", model, "--tasks", ",".join(tasks), "--data", data, "--num-fewshot",
                    str(shots), "--limit", str(limit), "--out", os.path.join(place, "ours"), "--quiet"],
                   check=True, stdout=subprocess.DEVNULL)
    _, their_samples = harness.read_files(os.path.join(place, "theirs"))
    _, our_samples = harness.read_files(os.path.join(place, "ours"))
    for task in tasks:
        c.same(f"{task}, documents", len(their_samples[task]), len(our_samples.get(task, [])))
        for a, b in zip(sorted(their_samples[task], key=lambda s: s["doc_id"]), our_samples.get(task, [])):
            compare_sample(c, task, a, b)
    return client.seconds


PREFIX_CASE = ("mmlu 5-shot", ["mmlu_anatomy", "mmlu_astronomy"], 5, 10)
PREFIX_MODEL = "--dim 512 --ffn 1408 --layers 8 --heads 8 --kv-heads 8 --shift kv --context 2048".split()
PREFIX_SPEEDUP = 4


def check_prefixes(command, data, place, limit):
    """Requests that share examples take a fourth of the time with stored prefixes, and have the numbers
    of 'kvshift eval' with and without them.  Returns whether this holds."""
    model, seconds, wrong = os.path.join(place, "random"), {}, 0
    tokenizer = os.path.join(data, "tokenizer-gpt2", "tokenizer.json")
    subprocess.run([command, "convert", "--random", "desk-1m", model, *PREFIX_MODEL, "--vocab", "50257",
                    "-t", tokenizer], check=True, capture_output=True)
    for store in ("without", "with"):
        options = ["--prefix-cache", "0"] if store == "without" else []
        with Server(command, model, "--template", "raw", *options) as server:
            c = Comparison(f"{PREFIX_CASE[0]}, {store} stored prefixes")
            seconds[store] = evaluate_both(c, command, model, server.port, data, os.path.join(place, store),
                                           PREFIX_CASE, limit, 1, 2048)
            fed = server.metrics()["fed_tokens_total"]
        print(f"{c.name}: {c.samples} documents, largest difference {c.largest:.1e}, {fed:.0f} tokens computed, "
              f"{seconds[store]:.1f} s", flush=True)
        wrong += c.wrong
    faster = seconds["without"] / seconds["with"]
    print(f"{PREFIX_CASE[0]}: {faster:.1f} times as fast with stored prefixes (at least {PREFIX_SPEEDUP})")
    return not wrong and faster >= PREFIX_SPEEDUP


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kvshift")
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--limit", type=int, help="documents of each task")
    options = parser.parse_args()
    data = os.path.abspath(os.path.join(os.environ.get("KVSHIFT_SHARED", "../shared"), "data"))
    reference = os.path.join(data, "eval-reference")
    if not os.path.isdir(reference):
        print(f"skipped: no models in '{data}'")
        return 77
    failed, done = 0, 0
    with tempfile.TemporaryDirectory() as place:
        for kind in ("plain", "shifted"):
            model = os.path.join(place, kind)
            subprocess.run([options.kvshift, "convert", os.path.join(reference, kind), model, "--overwrite"],
                           check=True, capture_output=True)
            check_queue(options.kvshift, model)
            with Server(options.kvshift, model, "--template", "raw") as server:
                check_package(server)
                for case in CASES:
                    for concurrent in (1, 8):
                        c = Comparison(f"{kind} {case[0]}, {concurrent} at a time")
                        if options.only not in c.name:
                            continue
                        evaluate_both(c, options.kvshift, model, server.port, data,
                                      os.path.join(place, c.name.replace(" ", "-")), case, options.limit,
                                      concurrent, 512)
                        print(f"{c.name}: {c.samples} documents, largest difference {c.largest:.1e}, "
                              f"{c.near} near ties{f', {c.wrong} differences' if c.wrong else ''}", flush=True)
                        failed += bool(c.wrong)
                        done += 1
        if options.only in "prefixes":
            failed += not check_prefixes(options.kvshift, data, place, options.limit)
            done += 1
    print(f"{done - failed} of {done} cases agree")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
