"""Runs training programs in turns: in each round, every program executes one step.

A program is started once, loads its data, and then executes a step on request.  Between its steps
it sleeps, so that the others can use the machine.  kvshift ("bench train --paced") and
pytorch_steps.py wait for a line of input and answer with a line of JSON.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

REST = 0.3  # seconds before a step: threads of the previous program may still be spinning
WARMUP = 2  # rounds that are not measured, as in kvshift bench train


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


class Crashed(Exception):
    """A signal ended a program."""

    def __init__(self, signal):
        super().__init__(f"crashed (signal {signal})")


class Program:
    """A program that executes one step per input line and answers {"seconds": ..., "loss": ...}."""

    def __init__(self, name, command, threads, **environment):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), **environment)
        self.errors = tempfile.TemporaryFile("w+")
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=self.errors, text=True, env=environment)
        except OSError as error:
            fail(f"cannot start {name}: {error}")
        self.description = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            if code < 0:
                raise Crashed(-code)
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines()
            fail(f"{self.name} ended: {said[-1] if said else 'it printed nothing'}")
        return json.loads(line)

    def step(self):
        time.sleep(REST)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def finish(self):
        """Ends the program and returns its last output, a JSON object or nothing."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.wait()
        return json.loads(rest) if rest.strip() else {}


def ours(path, model, shift, folder, threads, *options):
    """Starts kvshift, which saves its initial weights and its batch in the folder."""
    command = [path, "bench", "train", "--model", model, "--shift", shift, "--save", folder,
               "--threads", str(threads), "--paced", "--json", *options]
    return Program("kvshift", command, threads)


def check_losses(answers, first, later):
    """Losses must be equal for the same weights and batch, and again after the same updates."""
    own = answers["kvshift"]
    for name, found in answers.items():
        for step, limit in ((0, first), (WARMUP - 1, later)):
            difference = abs(found[step]["loss"] - own[step]["loss"])
            if not difference <= limit:
                fail(f"step {step + 1} of {name} has loss {found[step]['loss']:.6f}, "
                     f"kvshift {own[step]['loss']:.6f}: they do not train the same model")


def take_turns(programs, rounds, first, later):
    """Returns all answers of each program, including the warm-up.  Each round starts with another
    program.  After the warm-up, losses must agree to `first` at step 1 and `later` at step 2."""
    answers = {program.name: [] for program in programs}
    for number in range(WARMUP + rounds):
        for place in range(len(programs)):
            program = programs[(place + number) % len(programs)]
            answers[program.name].append(program.step())
        if number + 1 == WARMUP:
            check_losses(answers, first, later)
    return answers


def summarise(answers, tokens):
    """Times, rates and the speedup of kvshift, by name."""
    own = [a["seconds"] for a in answers["kvshift"][WARMUP:]]
    summary = {}
    for name, found in answers.items():
        seconds = [a["seconds"] for a in found[WARMUP:]]
        median = statistics.median(seconds)
        summary[name] = {
            "step_ms": {"best": 1e3 * min(seconds), "median": 1e3 * median},
            "tokens_per_s": tokens / median,
            "loss_first": found[0]["loss"],
            "loss_last": found[-1]["loss"],
            "kvshift_faster": median / statistics.median(own),
            "kvshift_faster_best": min(seconds) / min(own),
        }
    return summary


def print_table(title, summary):
    print(f"{title}\n{'':36}{'median ms':>11}{'best ms':>10}{'tokens/s':>10}{'kvshift is':>16}")
    for name, found in summary.items():
        times = found["step_ms"]
        ratio = "" if name == "kvshift" else f"{found['kvshift_faster']:.2f} x faster"
        print(f"{name:36}{times['median']:11.1f}{times['best']:10.1f}"
              f"{found['tokens_per_s']:10.0f}{ratio:>16}")
    sys.stdout.flush()


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
