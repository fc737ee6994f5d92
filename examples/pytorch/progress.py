"""What a run prints: on standard error what it does, on standard output its result."""
import json
import math
import os
import shutil
import sys
import time

TERMINAL_SECONDS, PLAIN_LINES = 0.1, 20


def duration(seconds):
    whole = int(seconds + 0.5)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 172800:
        return f"{whole // 3600} h {whole // 60 % 60:02} min"
    return f"{whole // 86400} d {whole // 3600 % 24:02} h"


def short_count(number):
    if number < 9999.5:
        return f"{number:.0f}"
    for unit in "kMGTPE":
        number /= 1000
        if number < 999.5:
            break
    digits = 2 if number < 9.995 else 1 if number < 99.95 else 0
    return f"{number:.{digits}f}{unit}"


class Progress:
    """A line that is rewritten on a terminal, and about 20 lines otherwise."""

    def __init__(self, steps, epochs_per_step, quiet):
        self.steps, self.epochs_per_step, self.quiet = steps, epochs_per_step, quiet
        self.terminal = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.started = self.shown = time.perf_counter()
        self.done = self.tokens = 0
        self.evaluation, self.is_open = "", False

    def _is_kept(self, step):
        """About twenty lines stay, so that the history of the loss can be seen."""
        return step == self.steps or step % -(-self.steps // PLAIN_LINES) == 0

    def _is_due(self, step):
        is_late = self.terminal and time.perf_counter() - self.shown >= TERMINAL_SECONDS
        return is_late or self._is_kept(step)

    def add(self, record):
        self.done += 1
        self.tokens += record["tokens"]
        if self.quiet:
            return
        step = record["step"]
        if "eval_loss" in record:
            print("\r\x1b[K" if self.is_open else "", f"step {step}: evaluation loss {record['eval_loss']:.4f}", sep="",
                  file=sys.stderr)
            self.evaluation, self.is_open = f" (evaluation {record['eval_loss']:.4f})", False
        if not self._is_due(step):
            return
        elapsed = time.perf_counter() - self.started
        rate, left = short_count(self.tokens / elapsed), duration(elapsed / self.done * (self.steps - step))
        line = (f"step {step}/{self.steps}  loss {record['loss']:.4f}  {left} left"
                f"  epoch {self.epochs_per_step * step:.2f}{self.evaluation}  lr {record['lr']:.2e}  {rate} tokens/s"
                f"  {duration(elapsed)}")
        self.shown = time.perf_counter()
        if self.terminal:
            print("\r" + line[:shutil.get_terminal_size().columns - 1] + "\x1b[K", end="", file=sys.stderr, flush=True)
            self.is_open = True
            if self._is_kept(step):
                self.end()
        else:
            print(line, file=sys.stderr, flush=True)

    def end(self):
        if self.is_open:
            print(file=sys.stderr)
            self.is_open = False


def announce(run):
    """Describes a run that starts."""
    model, settings, ranks = run.whole.config, run.settings, run.ranks
    if run.trainer.step:
        print(f"resumed after step {run.trainer.step} of {settings['out']}", file=sys.stderr)
    heads = f"{model['heads']} head" + "s" * (model["heads"] > 1)
    start = f", from {settings['init-from']}" if settings["init-from"] else ""
    print(f"model: {model['body']}, {short_count(run.whole.parameters)} parameters, {model['layers']} layer"
          f"{'s' * (model['layers'] > 1)}, dim {model['dim']}, {heads}, shift {model['shift']}{start}", file=sys.stderr)
    each = settings["batch"] // ranks.size
    shared = f"; {ranks.size} ranks, {each} sequences per step each, shard {settings['shard']}" * (ranks.size > 1)
    how = f"{run.how['device']}, {settings['precision']}{', compiled' * run.how['compile']}"
    print(f"text: {settings['data']}, windows of {run.context} tokens{shared}; {how}", file=sys.stderr)
    if not settings["out"]:
        print("nothing is saved: --out none", file=sys.stderr)
    elif not settings.is_given("out"):
        print(f"the run is saved in {settings['out']}", file=sys.stderr)


def print_result(run, result):
    settings, rate = run.settings, result["tokens"] / result["seconds"]
    why = {0: "", 129: "stopped by SIGHUP", 130: "stopped by SIGINT", 143: "stopped by SIGTERM",
           1: f"stopped after {settings['max-time']:g} minutes (--max-time),",
           2: f"ended after {run.stale} evaluations without a loss below {run.best:.4f},"}[run.stop]
    if why and not settings["quiet"]:
        saved = "; --resume continues from there" if settings["out"] else ""
        print(f"{why} after step {result['steps']}{saved}", file=sys.stderr)
    if settings["json"]:
        print(json.dumps({**result, "tokens_per_s": rate, "parameters": run.whole.parameters, "seed": settings["seed"],
                          "ranks": run.ranks.size, "out": settings["out"]}, indent=2))
        return
    print(f"loss      {result['final_loss']:.4f}, perplexity {math.exp(result['final_loss']):.3f} on "
          f"{settings['eval-sequences']} windows of the validation text")
    print(f"steps     {result['steps']}")
    print(f"time      {duration(result['seconds'])}, {short_count(rate)} tokens/s")
    tokenizer = "tokenizer.json, " if run.whole.tokenizer else ""
    print(f"files     {settings['out']}: model.safetensors, config.json, {tokenizer}train.jsonl, result.json"
          if settings["out"] else "files     none: --out none")
