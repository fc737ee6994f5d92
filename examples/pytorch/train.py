#!/usr/bin/env python3
"""Trains a model with KV shifting attention in PyTorch, on GPUs or processors.

It takes the options and configuration files of `kvshift train`, trains on the same sequences in the
same order with the same schedule, clipping and weight decay, and writes the same run folder, which
`kvshift report`, `analyze`, `eval` and `generate` read and `kvshift train --init-from` continues from.

    torchrun --nproc-per-node 8 train.py --config run.toml --data corpora/book --out runs/book

This file has the loop and the command line.  configuration.py reads the settings, trainer.py makes a
step, ranks.py divides the work, folder.py writes the files, and progress.py prints.
"""
import argparse
import json
import math
import os
import pathlib
import signal
import sys
import tempfile
import time
import warnings

try:
    import kvshift
    import kvshift.torch  # registers the models
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict import (get_model_state_dict, get_optimizer_state_dict,
                                                         set_model_state_dict, set_optimizer_state_dict)
    from trainer import Diverged, Trainer
except ImportError as problem:
    sys.exit(f"train.py: {problem}; it needs Python 3.11 and \"pip install '.[torch]'\" in the project's folder")

import folder
from configuration import SUPPORTED, Refused, Settings, make_model, open_text
from progress import Progress, announce, print_result
from ranks import Ranks

SHIFT_EVERY = 50  # steps between records of the shift means, besides evaluations


# ---- the run -------------------------------------------------------------------------------------

class Run:
    """A run on this rank.  Rank 0 also has `whole`, the library's model, which writes files and computes
    taps, and the run folder."""

    def __init__(self, settings, arguments, ranks):
        self.settings, self.ranks = settings, ranks
        if settings["batch"] % ranks.size:
            raise Refused(f"option '--batch' is {settings['batch']}, expected a multiple of the {ranks.size} ranks", 2)
        self.whole = self.folder = None
        settings.values, config, vocab, self.context = ranks.from_first(lambda: self._begin(settings))
        self.corpus = open_text(settings, vocab)
        self.training = settings.training()
        self.training.check()
        self.trainer = Trainer(config, self.corpus.data(self.context), settings, self.training, ranks,
                               self.whole, arguments)
        self.model = self.trainer.model
        self.how = {"version": str(torch.__version__), "device": ranks.device_name(), "compile": arguments.compile,
                    "attention": arguments.attention, "replicas": arguments.replicas}
        self.tokens, self.earlier = 0, 0.0
        self.best, self.stale = math.inf, 0  # the lowest evaluation loss, and evaluations since then
        self.started = time.perf_counter()
        self.stop = self.wants_checkpoint = 0

    def _begin(self, settings):
        """On rank 0: the folder, the text and the model; returns what the other ranks need of them."""
        settings.take_out()
        out = settings["out"]
        if out and settings["resume"] is None and (found := folder.existing(out)):
            raise Refused(f"'{out}' already holds a run ('{found}'); --resume continues it, another --out starts a new "
                          "one")
        corpus = open_text(settings, known_vocab(settings))
        self.whole = make_model(settings, corpus)
        config = self.whole.config
        context = settings["sequence-tokens"] or config["context"]
        if context > config["context"]:
            raise Refused(f"option '--sequence-tokens' is {context}, but the context is {config['context']}", 2)
        if config["vocab"] < corpus.vocab:
            raise Refused(f"the model's vocabulary is {config['vocab']}, the data needs {corpus.vocab}")
        corpus.data(context).close()  # checks the splits
        settings.take_text(corpus.windows(context, "train"), corpus.windows(context, "valid"))
        for option in "patience", "save-best":
            if settings[option] and not settings["eval-every"]:
                raise Refused(f"option '--{option}' needs evaluations, but --eval-every is 0", 2)
        if settings["save-best"] and not out:
            raise Refused("option '--save-best' needs '--out'", 2)
        self.config = config_json_of(self.whole, existing_parent(out) if out else None)
        return settings.values, self.config, config["vocab"], context

    @property
    def seconds(self):
        return self.earlier + time.perf_counter() - self.started

    # ---- the library's model ----

    def take_weights(self, chosen=lambda name: True):
        """Copies weights into the library's model on rank 0."""
        for name, value in self.ranks.gather(self.model, chosen):
            if self.ranks.is_first:
                self.whole.set_tensor(name, value)

    def shift_means(self):
        """Means over all heads of the sum of taps and of the current token's tap, on rank 0.  The form data
        has gates instead of taps."""
        if getattr(self.model.config, "kvshift", {}).get("form") == "data":
            return {}
        self.take_weights(lambda name: name.endswith("_shift"))
        found = {}
        for letter, taps in (self.whole.taps() if self.ranks.is_first else {}).items():
            taps = taps.reshape(-1, taps.shape[-1])
            taps = taps[~(taps != taps).any(axis=1)]  # heads that there are
            found[f"{letter}_shift_sum"] = float(taps.sum() / len(taps))
            found[f"{letter}_shift_current"] = float(taps[:, -1].mean())
        return found

    # ---- files ----

    def open_folder(self):
        """Resumes from the newest checkpoint, if that is wanted, and opens the run folder."""
        out, resume = self.settings["out"], self.settings["resume"]
        if not out:
            return
        path, state = self.ranks.from_first(lambda: self._find_checkpoint(out, resume))
        if path:
            self.load(path, state)
        self.ranks.from_first(lambda: self._open(out, resume, path))

    def _find_checkpoint(self, out, resume):
        if resume is None:
            return None, None
        path, state, skipped = folder.newest_checkpoint(out)
        for line in skipped:
            print(f"train.py: {line}", file=sys.stderr)
        if path is None and (resume == "newest" or skipped):
            raise Refused(f"'{out}' has no complete checkpoint of PyTorch to continue from")
        if path is not None:
            folder.check_same(self.first_line(), state["run"]["settings"], path)
        return path and str(path), state

    def _open(self, out, resume, path):
        files = {name for name in ("train.jsonl", "model.safetensors") if (pathlib.Path(out) / name).exists()}
        begun = resume == "auto" and files == {"train.jsonl"}  # killed before its first checkpoint
        step = self.trainer.step if path or begun else None
        self.folder = folder.Folder(out, self.first_line(), self.settings, step, self.how)
        self.folder.write_sources(self.settings["data"], self.corpus.sources())

    def first_line(self):
        return folder.describe(self.settings, self.training, self.config, self.whole.parameters, self.corpus,
                               self.context, self.ranks.size, self.how)

    def state(self):
        optimizer = self.trainer.optimizer
        return {"model": get_model_state_dict(self.model),
                "optimizer": get_optimizer_state_dict(self.model, optimizer)}

    def load(self, path, state):
        found = self.state()
        self.read(found, path)
        set_model_state_dict(self.model, found["model"])
        set_optimizer_state_dict(self.model, self.trainer.optimizer, found["optimizer"])
        self.trainer.step, self.tokens = state["step"], state["run"]["tokens"]
        self.earlier, best, self.stale = (state["run"][key] for key in ("seconds", "best_loss", "stale"))
        self.best = math.inf if best is None else best

    def read(self, found, path):
        """Replaces the tensors of `found` by those of a checkpoint."""
        try:
            dcp.load(found, checkpoint_id=os.path.join(path, "torch"))
        except (CheckpointException, RuntimeError, ValueError) as problem:
            raise Refused(f"cannot read '{path}/torch': {first_words(problem)}") from None

    def save(self, is_best):
        """A checkpoint.  All ranks write their parts."""
        self.ranks.from_first(lambda: self.folder.begin_checkpoint())
        path = os.path.join(self.settings["out"], "ckpt", ".filling", "torch")
        try:
            dcp.save(self.state(), checkpoint_id=path)
        except CheckpointException as problem:
            raise Refused(f"cannot write '{path}': {first_words(problem)}") from None
        self.take_weights()
        self.ranks.from_first(lambda: self.folder.commit_checkpoint(self.whole, self.progress_state(), is_best))

    def progress_state(self):
        """The content of state.json."""
        return {"step": self.trainer.step,
                "run": {"settings": self.first_line(), "tokens": self.tokens, "seconds": self.seconds,
                        "best_loss": self.best if math.isfinite(self.best) else None, "stale": self.stale}}

    # ---- the loop ----

    def requests(self):
        """Whether this rank wants to stop, and whether it wants a checkpoint, once."""
        wants_checkpoint, self.wants_checkpoint = self.wants_checkpoint, 0
        return bool(self.stop), wants_checkpoint

    def step(self):
        """A step and its record, with evaluations; whether to stop and whether to save a checkpoint."""
        trainer, started = self.trainer, time.perf_counter()
        try:
            record, (stop, save) = trainer.take_step(self.requests)
        except Diverged as problem:
            good = self.folder and folder.newest_before(self.folder.checkpoints, trainer.step)
            raise Refused(f"{problem}; the last good checkpoint is '{good}'" if good else str(problem)) from None
        record["seconds"] = time.perf_counter() - started
        self.tokens += record["tokens"]
        every = self.settings["eval-every"]
        evaluates = every and trainer.step % every == 0
        if evaluates:
            record["eval_loss"] = trainer.evaluate()
        if evaluates or trainer.step == 1 or trainer.step % SHIFT_EVERY == 0:
            record |= self.shift_means()
        return record, stop > 0, save > 0

    def train(self, progress):
        """The rest of the run; returns its result."""
        settings, trainer, ranks = self.settings, self.trainer, self.ranks
        every, limit = settings["checkpoint-every"], 60 * settings["max-time"]
        stop = unproven = False
        while trainer.step < settings["steps"] and not stop:
            if ranks.is_first and limit and time.perf_counter() - self.started >= limit:
                self.stop = self.stop or TIME_IS_UP
            record, stop, save = self.step()
            if unproven:  # the checkpoint before was good
                self.prune()
            if self.folder:
                self.folder.add_step(record)
            progress.add(record)
            is_best = self.note_evaluation(record.get("eval_loss"))
            if settings["patience"] and "eval_loss" in record and self.stale >= settings["patience"]:
                stop, self.stop = True, self.stop or OUT_OF_PATIENCE
            is_due = (is_best and settings["save-best"]) or (
                every and (trainer.step % every == 0 or trainer.step == settings["steps"] or is_best))
            unproven = bool(settings["out"] and (is_due or stop or save))
            if unproven:
                self.save(is_best)
        return self.finish(unproven)

    def note_evaluation(self, loss):
        """Returns whether an evaluation has the lowest loss; None = there was none."""
        if loss is None:
            return False
        is_best = loss < self.best
        self.best, self.stale = min(loss, self.best), 0 if is_best else self.stale + 1
        return is_best

    def take_best(self):
        """Replaces the weights by those of ckpt/best."""
        path = os.path.join(self.settings["out"], "ckpt", "best")
        found = {"model": get_model_state_dict(self.model)}
        self.read(found, path)
        set_model_state_dict(self.model, found["model"])
        self.trainer.step = self.ranks.from_first(lambda: folder.step_of(pathlib.Path(os.readlink(path))))

    def finish(self, unproven):
        steps = self.trainer.step
        if self.settings["save-best"] and math.isfinite(self.best):
            self.take_best()
            if self.trainer.step != steps and self.ranks.is_first:
                print(f"train.py: the model is that of step {self.trainer.step}, with the lowest loss", file=sys.stderr)
        result = {"steps": steps, "final_loss": self.trainer.evaluate(), "final_accuracy": None,
                  "step_at_99": None, "seconds": self.seconds, "tokens": self.tokens}
        self.take_weights()
        if self.settings["out"]:
            self.ranks.from_first(lambda: self.folder.finish(self.whole, result))
        if unproven:
            self.prune()
        return result

    def prune(self):
        self.ranks.from_first(lambda: self.folder.prune(self.settings["keep"], self.trainer.step))


def config_json_of(model, beside):
    """The config.json that the library writes for a model."""
    try:
        with tempfile.TemporaryDirectory(prefix=".config-", dir=beside) as name:
            model.save(name)
            return json.loads((pathlib.Path(name) / "config.json").read_text(encoding="utf-8"))
    except OSError as problem:
        raise Refused(f"cannot write into '{beside or tempfile.gettempdir()}': {problem.strerror or problem}") from None


def first_words(problem):
    """The first line of a message, of the first rank that failed."""
    if isinstance(problem, CheckpointException) and problem.failures:
        problem = next(iter(problem.failures.values()))[0]
    lines = [line.strip() for line in str(problem).split("\n") if line.strip()]
    return f"{type(problem).__name__}: {lines[0] if lines else 'no message'}"[:300]


def existing_parent(path):
    """The nearest folder above a path that exists."""
    return next(parent for parent in pathlib.Path(path).absolute().parents if parent.is_dir())


def known_vocab(settings):
    """The vocabulary if the options or a model give it, which files of ids need; otherwise 0."""
    if settings["init-from"]:
        with kvshift.ModelConfig.load(settings["init-from"]) as config:
            return int(config["vocab"])
    return settings["vocab"] if settings.is_given("vocab") else 0


# ---- the end of a run ----------------------------------------------------------------------------

TIME_IS_UP, OUT_OF_PATIENCE = 1, 2  # reasons to stop besides signals, which are 128 + their number


def catch_signals(run):
    """SIGINT, SIGTERM and SIGHUP end the run after the step, with a checkpoint; SIGUSR1 saves one.  A second
    signal ends it at once, but torchrun may pass on what a terminal has already sent."""
    def stop(number, _frame):
        if run.stop and not run.ranks.started and number != signal.SIGHUP:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        run.stop = 128 + number

    def save(_number, _frame):
        run.wants_checkpoint = 1

    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)
    signal.signal(signal.SIGUSR1, save)


# ---- the command line ----------------------------------------------------------------------------

def parser():
    width = 98
    lines = []
    for group, names in SUPPORTED.items():
        line = f"  {group}:".ljust(15)
        for name in names:
            if len(line) + len(name) + 3 > width:
                lines.append(line)
                line = " " * 15
            line += f" --{name}"
        lines.append(line)
    options = "\n".join(lines)
    made = argparse.ArgumentParser(
        prog="train.py", add_help=False, allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, max_help_position=26, width=width),
        usage="train.py [OPTION]...\n       torchrun --nproc-per-node GPUS train.py [OPTION]...",
        description="Trains a model with KV shifting attention in PyTorch on a corpus of 'kvshift data build'\n"
                    "and writes a run folder that the commands of kvshift read.",
        epilog="Options of 'kvshift train', with the same names, values and defaults, also in --config FILE\n"
               f"(TOML or JSON) and in the environment; 'kvshift train --help' explains them:\n\n{options}\n"
               f"{'  model:':15} all options of the model, and --dropout\n\n"
               "Other options of 'kvshift train' are refused. SIGINT, SIGTERM and SIGHUP end the run after the\n"
               "step, with a checkpoint; SIGUSR1 saves a checkpoint.\n\n"
               "  train.py --data corpora/book --model desk-1m --out runs/book\n"
               "  torchrun --nproc-per-node 8 train.py --config run.toml --precision bf16 --shard parameters \\\n"
               "      --compile --out runs/big\n"
               "  torchrun --nproc-per-node 8 train.py --resume --out runs/big --compile")
    own = made.add_argument_group("Options of PyTorch, which a resumed run needs again")
    own.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                     help="auto takes GPUs if there are any (default: auto)")
    own.add_argument("--compile", action="store_true", help="compile the layers with torch.compile")
    own.add_argument("--attention", default="sdpa", metavar="NAME",
                     help="sdpa, eager, flash_attention_2 or flex_attention (default: sdpa)")
    own.add_argument("--replicas", type=int, default=1, metavar="N",
                     help="with --shard: number of groups of ranks, such as machines, that each have all weights "
                          "(default: 1)")
    own.add_argument("-h", "--help", action="help", help="show this help")
    return made


def train(arguments, options):
    """A whole run; returns why it was stopped, 0 if it was not."""
    settings = Settings(options)
    if settings["threads"]:
        torch.set_num_threads(settings["threads"])
    ranks = Ranks(arguments.device, settings["rank-timeout"])
    try:
        run = Run(settings, arguments, ranks)
        run.open_folder()
        quiet = settings["quiet"] or not ranks.is_first
        if not quiet:
            announce(run)
        catch_signals(run)
        epochs_per_step = settings["batch"] / run.corpus.windows(run.context, "train")
        progress = Progress(settings["steps"], epochs_per_step, quiet)
        result = run.train(progress)
        progress.end()
        if ranks.is_first:
            print_result(run, result)
        return run.stop
    finally:
        ranks.close()


def main(words=None):
    arguments, options = parser().parse_known_args(words)
    warnings.filterwarnings("ignore", message="torch.distributed is (disabled|unavailable)")
    try:
        reason = train(arguments, options)
    except (Refused, kvshift.Error, OSError) as problem:
        if int(os.environ.get("LOCAL_RANK", 0)) == 0:
            print(f"train.py: {problem}", file=sys.stderr)
        sys.exit(getattr(problem, "code", 1))
    sys.exit(reason if reason > 128 else 0)


if __name__ == "__main__":
    main()
