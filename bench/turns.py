"""Programs that train in turns: one step of one, one step of the next, round after round.

A program is started once, gets ready, and then does a step whenever it is told to.  Between its
steps it sleeps, so that the others have the machine.  kvshift ("bench train --paced") and
pytorch_steps.py wait for a line of input and answer with a line of JSON.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

REST = 0.3  # seconds before a step: threads of the program before may still be spinning
WARMUP = 2  # rounds that do not count, as in kvshift bench train


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


class Program:
    """A program that is told to step by a line, and answers {"seconds": ..., "loss": ...}."""

    def __init__(self, name, command, threads):
        self.name = name
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
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
            self.process.wait()
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines()
            fail(f"{self.name} ended: {said[-1] if said else 'it said nothing'}")
        return json.loads(line)

    def step(self):
        time.sleep(REST)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.answer()

    def finish(self):
        """Ends the program; what it still says, if that is JSON."""
        self.process.stdin.close()
        rest = self.process.stdout.read()
        self.process.wait()
        return json.loads(rest) if rest.strip() else {}


def ours(path, model, shift, folder, threads, *options):
    """kvshift, which leaves its first weights and its batch in the folder."""
    command = [path, "bench", "train", "--model", model, "--shift", shift, "--save", folder,
               "--threads", str(threads), "--paced", "--json", *options]
    return Program("kvshift", command, threads)


def check_losses(answers, first, later):
    """The same weights and the same batch give the same loss; the same updates, the same again."""
    own = answers["kvshift"]
    for name, found in answers.items():
        for step, limit in ((0, first), (WARMUP - 1, later)):
            difference = abs(found[step]["loss"] - own[step]["loss"])
            if not difference <= limit:
                fail(f"step {step + 1} of {name} has loss {found[step]['loss']:.6f}, "
                     f"kvshift {own[step]['loss']:.6f}: they do not train the same model")


def take_turns(programs, rounds, first, later):
    """All answers of each program, warm-up included.  Who comes first changes from round to round.
    After the warm-up losses must agree: to `first` at the first step, to `later` after an update."""
    answers = {program.name: [] for program in programs}
    for number in range(WARMUP + rounds):
        for place in range(len(programs)):
            program = programs[(place + number) % len(programs)]
            answers[program.name].append(program.step())
        if number + 1 == WARMUP:
            check_losses(answers, first, later)
    return answers


def summarise(answers, tokens):
    """Times, rates and how many times faster kvshift is, by name."""
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
