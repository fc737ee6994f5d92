#!/usr/bin/env python3
"""Trains a model with KV shifting attention in PyTorch, on GPUs or processors.

It takes the options and configuration files of `kvshift train`, trains on the same sequences in the
same order with the same schedule, clipping and weight decay, and writes the same run folder, which
`kvshift report`, `analyze`, `eval` and `generate` read and `kvshift train --init-from` continues from.

    torchrun --nproc-per-node 8 train.py --config run.toml --data corpora/book --out runs/book

configuration.py reads the settings, ranks.py divides the work, folder.py writes the files, and
progress.py prints.
"""
import argparse
import contextlib
import json
import math
import os
import pathlib
import re
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
    from torch.distributed.checkpoint.state_dict import (get_model_state_dict, get_optimizer_state_dict,
                                                         set_model_state_dict, set_optimizer_state_dict)
    from torch.nn import functional as F
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights
except ImportError as problem:
    sys.exit(f"train.py: {problem}; it needs Python 3.11 and \"pip install '.[torch]'\" in the project's folder")

import folder
from configuration import SUPPORTED, Refused, Settings, make_model, open_text
from progress import Progress, announce, print_result
from ranks import Ranks

SHIFT_EVERY = 50  # steps between records of the shift means, besides evaluations
IGNORED = -100  # a target without a loss


def group_of(name, parameter):
    """The group of a weight in the C trainer: matrices decay, gains and biases do not, and the shift has a
    rate and a decay of its own."""
    if re.search(r"\.([qkv]_shift|filter)$", name):
        return "shift"
    return "gains" if parameter.ndim == 1 or name.endswith(".r_table") else "matrices"


# ---- the model -----------------------------------------------------------------------------------

def torch_model(config_json, attention):
    """The model of PyTorch for a config.json, which may be one of another family if it has no shift.  Its
    weights are not set yet."""
    try:
        config = type(AutoConfig.for_model(config_json["model_type"])).from_dict(config_json)
        config.use_cache = False
        with no_init_weights():
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
    except (ValueError, KeyError, ImportError) as problem:  # a setting or an implementation that it does not have
        raise Refused(f"PyTorch cannot train this model: {str(problem).splitlines()[0]}") from None
    model.tie_weights()
    return model


def config_json_of(model, beside):
    """The config.json that the library writes for a model."""
    try:
        with tempfile.TemporaryDirectory(dir=beside) as name:
            model.save(name)
            return json.loads((pathlib.Path(name) / "config.json").read_text(encoding="utf-8"))
    except OSError as problem:
        raise Refused(f"cannot write into '{beside or tempfile.gettempdir()}': {problem.strerror or problem}") from None


def optimizer_of(model, training, device):
    """AdamW, with the weight decay that the C trainer gives each group."""
    decay = training["weight-decay"]
    others = decay if training["decay-all"] else 0.0
    groups = {"matrices": decay, "gains": others, "shift": training["shift-decay"] or others}
    members = {name: [] for name in groups}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            members[group_of(name, parameter)].append(parameter)
    return torch.optim.AdamW([{"params": members[name], "weight_decay": groups[name], "name": name}
                              for name in groups if members[name]],
                             lr=training["lr"], betas=(training["beta1"], training["beta2"]), eps=training["eps"],
                             fused=device.type == "cuda")


# ---- the run -------------------------------------------------------------------------------------

class Run:
    """The objects of a run on this rank.  Rank 0 also has `whole`, the library's model, which writes
    files and computes taps."""

    def __init__(self, settings, arguments, ranks):
        self.settings, self.ranks = settings, ranks
        self.batch, self.seed, self.stage = settings["batch"], settings["seed"], settings["shard"]
        if self.batch % ranks.size:
            raise Refused(f"option '--batch' is {self.batch}, expected a multiple of the {ranks.size} ranks", 2)
        self.whole = self.folder = None
        settings.values, config, vocab, self.context = ranks.from_first(lambda: self._begin(settings))
        self.corpus = open_text(settings, vocab)
        self.data = self.corpus.data(self.context)
        self.training = settings.training()
        self.training.check()
        self.shift_rate = settings.training()
        self.shift_rate["lr"] = settings["shift-lr"] or settings["lr"]
        self.micro = max(1, self.batch // settings["accumulate"])
        self._make_model(config, arguments)
        self.how = {"version": str(torch.__version__), "device": self.device_name(), "compile": arguments.compile,
                    "attention": arguments.attention}
        self.tokens, self.earlier, self.best, self.step = 0, 0.0, math.inf, 0
        self.started = time.perf_counter()
        self.wanted = {"stop": 0, "save": 0}

    def _begin(self, settings):
        """On rank 0: the text and the model; returns what the other ranks need of them."""
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
        out = settings["out"]
        self.model_json = config_json_of(self.whole, existing_parent(out) if out else None)
        return settings.values, self.model_json, config["vocab"], context

    def _make_model(self, config, arguments):
        ranks, device = self.ranks, self.ranks.device
        self.model = torch_model(config, arguments.attention)
        if self.settings["only-shift"]:
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(group_of(name, parameter) == "shift")
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise Refused("only the shift is to be trained, but the model has none that learns")
        if self.settings["recompute"]:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        base = self.model.base_model
        layers = base.h if hasattr(base, "h") else base.layers
        if arguments.compile:
            for layer in layers:
                layer.compile()
        self.compiled = arguments.compile
        self.model.to(device)
        ranks.shard(self.model, self.stage, layers)
        if ranks.is_first:
            ours, theirs = {name for name, _ in self.model.named_parameters()}, self.whole.tensors().keys()
            if ours != theirs:
                raise Refused(f"the models of PyTorch and of the library differ in '{sorted(ours ^ theirs)[0]}'")
        ranks.fill(self.model, self.whole.tensor if ranks.is_first else None)
        self.optimizer = optimizer_of(self.model, self.training, device)
        self.trained = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def device_name(self):
        return torch.cuda.get_device_name(self.ranks.device) if self.ranks.device.type == "cuda" else "cpu"

    @property
    def seconds(self):
        return self.earlier + time.perf_counter() - self.started

    # ---- passes ----

    def autocast(self):
        """bf16 for products of matrices; weights, gradients and moments stay float32."""
        if self.settings["precision"] == "bf16":
            return torch.autocast(self.ranks.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def rows(self, stream, first, count):
        """Ids and targets of sequences of a stream, by number."""
        return [self.data.sequence(number, stream, self.seed)[:2] for number in range(first, first + count)]

    def loss(self, rows):
        """The sum of the losses.  Rows are padded at their ends, which attention before them does not see.
        Compiled models get one shape only."""
        length = self.data.max_length if self.compiled else max(len(ids) for ids, _ in rows)
        ids = torch.zeros(len(rows), length, dtype=torch.int64)
        targets = torch.full((len(rows), length), IGNORED, dtype=torch.int64)
        for row, (row_ids, row_targets) in enumerate(rows):
            ids[row, :len(row_ids)] = torch.from_numpy(row_ids)
            targets[row, :len(row_ids)] = torch.from_numpy(row_targets)
        targets[targets < 0] = IGNORED
        device = self.ranks.device
        with self.autocast():
            logits = self.model(input_ids=ids.to(device, non_blocking=True)).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.to(device, non_blocking=True).flatten(),
                               ignore_index=IGNORED, reduction="sum")

    def parts(self, rows, most):
        """Micro-batches of a rank's sequences: as many on every rank, since passes are collective.  A rank
        that has fewer gets a token without a target."""
        nothing = [(torch.zeros(1, dtype=torch.int32).numpy(), torch.full((1,), -1, dtype=torch.int32).numpy())]
        for first in range(0, most, self.micro):
            yield rows[first:first + self.micro] or nothing

    def train_step(self):
        """One step of the optimizer; returns its record."""
        started, number, ranks = time.perf_counter(), self.step + 1, self.ranks
        first, end = ranks.share(self.batch)
        rows = self.rows("train", self.step * self.batch + first, end - first)
        targets, tokens = ranks.sum([sum(int((wanted >= 0).sum()) for _, wanted in rows), sum(len(ids) for ids, _ in rows)])
        if targets == 0:
            raise Refused(f"step {number}: none of its {self.batch} sequences has a target")
        torch.manual_seed((self.seed << 32) + number * ranks.size + ranks.rank)  # for dropout
        self.model.train()
        total, parts = torch.zeros((), dtype=torch.float64, device=ranks.device), list(self.parts(rows, self.batch // ranks.size))
        for index, part in enumerate(parts):
            ranks.delay_sum(self.model, self.stage, index + 1 < len(parts))
            loss = self.loss(part)
            total += loss.detach()
            (loss * (ranks.size / targets)).backward()  # FSDP averages over ranks
        loss, stop, save = ranks.sum([total.item(), self.wanted["stop"], self.wanted["save"]])
        record = {"step": number, "loss": loss / targets, "lr": self.training.learning_rate(number)}
        record["grad_norm"] = self.clip(record)
        for group in self.optimizer.param_groups:
            group["lr"] = self.shift_rate.learning_rate(number) if group["name"] == "shift" else record["lr"]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step, self.tokens, self.wanted["save"] = number, self.tokens + int(tokens), 0
        return {**record, "tokens": int(tokens), "seconds": time.perf_counter() - started}, stop > 0, save > 0

    def clip(self, record):
        """Scales the gradients down to the norm --clip; returns the norm before.  Nothing has changed yet if
        the loss or the norm is not finite."""
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        norm = (norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item()
        if not (math.isfinite(record["loss"]) and math.isfinite(norm)):
            good = self.last_good()
            raise Refused(f"step {record['step']} diverged: loss {record['loss']:g}, gradient norm {norm:g}; a lower learning "
                          f"rate (now {record['lr']:g}) may help" + (f"; the last good checkpoint is '{good}'" if good else ""))
        limit = self.training["clip"]
        if 0 < limit < norm:
            torch._foreach_mul_(gradients, limit / norm)
        return norm

    def last_good(self):
        if not self.folder:
            return None
        return next((path for path in reversed(folder.steps_of(self.folder.checkpoints)) if folder.step_of(path) < self.step), None)

    def evaluate(self):
        """The mean loss of the first --eval-sequences windows of the validation text."""
        count, ranks = self.settings["eval-sequences"], self.ranks
        first, end = ranks.share(count)
        most = -(-count // ranks.size)
        self.model.train(self.settings["eval-dropout"])
        total, targets = torch.zeros((), dtype=torch.float64, device=ranks.device), 0
        with torch.no_grad():
            for at in range(0, most, self.micro):
                part = self.rows("valid", first + at, max(0, min(self.micro, end - first - at)))
                targets += sum(int((wanted >= 0).sum()) for _, wanted in part)
                total += self.loss(part or next(self.parts([], 1)))
        ranks.reshard(self.model)
        loss, targets = ranks.sum([total.item(), targets])
        return loss / targets

    def shift_means(self):
        """Means over all heads of the sum of taps and of the current token's tap.  All ranks call it.  The form
        data has gates instead of taps."""
        if getattr(self.model.config, "kvshift", {}).get("form") == "data":
            return {}
        for name, value in self.ranks.gather(self.model, lambda name: name.endswith("_shift")):
            if self.ranks.is_first:
                self.whole.set_tensor(name, value)
        found = {}
        for letter, taps in (self.whole.taps() if self.ranks.is_first else {}).items():
            taps = taps.reshape(-1, taps.shape[-1])
            taps = taps[~(taps != taps).any(axis=1)]  # heads that there are
            if len(taps):
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
        begun = resume == "auto" and (pathlib.Path(out) / "train.jsonl").exists() and not (
            pathlib.Path(out) / "model.safetensors").exists()  # killed before its first checkpoint
        self.folder = folder.Folder(out, self.first_line(), self.settings, self.step if path or begun else None, self.how)
        self.folder.write_sources(self.settings["data"], self.corpus.sources())

    def first_line(self):
        return folder.describe(self.settings, self.training, self.model_json, self.whole, self.corpus, self.context, self.ranks, self.how)

    def state(self):
        return {"model": get_model_state_dict(self.model), "optimizer": get_optimizer_state_dict(self.model, self.optimizer)}

    def load(self, path, state):
        found = self.state()
        try:
            dcp.load(found, checkpoint_id=os.path.join(path, "torch"))
        except Exception as problem:
            raise Refused(f"cannot read '{path}/torch': {first_words(problem)}") from None
        set_model_state_dict(self.model, found["model"])
        set_optimizer_state_dict(self.model, self.optimizer, found["optimizer"])
        self.step, self.tokens = state["step"], state["run"]["tokens"]
        self.earlier, best = state["run"]["seconds"], state["run"]["best_loss"]
        self.best = math.inf if best is None else best

    def save(self, is_best):
        """A checkpoint.  All ranks write their parts."""
        ranks = self.ranks
        ranks.from_first(lambda: self.folder.begin_checkpoint())
        dcp.save(self.state(), checkpoint_id=os.path.join(self.settings["out"], "ckpt", ".filling", "torch"))
        self.take_weights()
        run = {"tokens": self.tokens, "seconds": self.seconds, "best_loss": self.best if math.isfinite(self.best) else None}
        ranks.from_first(lambda: self.folder.commit_checkpoint(
            self.step, self.whole, {"step": self.step, "run": {"settings": self.first_line(), **run}}, is_best))

    def take_weights(self):
        """Copies the weights into the library's model on rank 0."""
        for name, value in self.ranks.gather(self.model):
            if self.ranks.is_first:
                self.whole.set_tensor(name, value)

    # ---- the loop ----

    def train(self, quiet):
        settings, ranks = self.settings, self.ranks
        every, steps = settings["checkpoint-every"], settings["steps"]
        progress = Progress(steps, self.batch / self.corpus.windows(self.context, "train"), quiet)
        stop = unproven = False
        catch_signals(self.wanted)
        while self.step < steps and not stop:
            if settings["max-time"] and time.perf_counter() - self.started >= 60 * settings["max-time"]:
                self.wanted["stop"] = self.wanted["stop"] or TIME_IS_UP
            record, stop, save = self.train_step()
            stop = stop and self.step < steps
            if unproven:
                ranks.from_first(lambda: self.folder.prune(settings["keep"], self.step))
                unproven = False
            evaluates = settings["eval-every"] and self.step % settings["eval-every"] == 0
            if evaluates:
                record["eval_loss"] = self.evaluate()
            if evaluates or self.step == 1 or self.step % SHIFT_EVERY == 0:
                record |= self.shift_means()
            if self.folder:
                self.folder.add_step(record)
            progress.add(record)
            is_best = record.get("eval_loss", math.inf) < self.best
            self.best = min(self.best, record.get("eval_loss", math.inf))
            due = every and (self.step % every == 0 or self.step == steps or is_best)
            if settings["out"] and (due or stop or save):
                self.save(bool(is_best))
                unproven = True
        final = self.evaluate()
        self.take_weights()
        result = {"steps": self.step, "final_loss": final, "final_accuracy": None, "step_at_99": None, "seconds": self.seconds,
                  "tokens": self.tokens}
        if settings["out"]:
            ranks.from_first(lambda: self.folder.finish(self.whole, result))
            if unproven:
                ranks.from_first(lambda: self.folder.prune(settings["keep"], self.step))
        progress.end()
        return result


def first_words(problem):
    """The first line of a message."""
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


# ---- signals -------------------------------------------------------------------------------------

TIME_IS_UP = 1


def catch_signals(wanted):
    """SIGINT and SIGTERM end the run after the step, with a checkpoint; SIGUSR1 saves one."""
    def stop(number, _frame):
        wanted["stop"] = 128 + number

    def save(_number, _frame):
        wanted["save"] = 1

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
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
        prog="train.py", add_help=False, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False,
        usage="train.py [OPTION]...\n       torchrun --nproc-per-node GPUS train.py [OPTION]...",
        description="Trains a model with KV shifting attention in PyTorch on a corpus of 'kvshift data build'\n"
                    "and writes a run folder that the commands of kvshift read.",
        epilog="Options of 'kvshift train', with the same names, values and defaults, also in --config FILE\n"
               f"(TOML or JSON) and in the environment; 'kvshift train --help' explains them:\n\n{options}\n"
               "  model:         all options of the model\n\n"
               "Other options of 'kvshift train' are refused. SIGINT and SIGTERM end the run after the step,\n"
               "with a checkpoint; SIGUSR1 saves a checkpoint.\n\n"
               "  train.py --data corpora/book --model desk-1m --out runs/book\n"
               "  torchrun --nproc-per-node 8 train.py --config run.toml --precision bf16 --shard parameters \\\n"
               "      --compile --out runs/big\n"
               "  torchrun --nproc-per-node 8 train.py --resume --out runs/big --compile")
    own = made.add_argument_group("Options of PyTorch, which a resumed run needs again")
    own.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto",
                     help="auto takes GPUs if there are any (default: auto)")
    own.add_argument("--compile", action="store_true", help="compile the layers with torch.compile")
    own.add_argument("--attention", default="sdpa", metavar="NAME",
                     help="implementation of attention: sdpa, eager, flash_attention_2 or flex_attention (default: sdpa)")
    own.add_argument("-h", "--help", action="help", help="show this help")
    return made


def run(arguments, options, quiet):
    settings = Settings(options)
    if settings["out"] and settings["resume"] is None and (found := folder.existing(settings["out"])):
        raise Refused(f"'{settings['out']}' already holds a run ('{found}'); --resume continues it, another --out starts a new one")
    for option in "resume", "checkpoint-every":
        if settings[option] and not settings["out"]:
            raise Refused(f"option '--{option}' needs '--out'", 2)
    if settings["threads"]:
        torch.set_num_threads(settings["threads"])
    ranks = Ranks(arguments.device, settings["rank-timeout"])
    try:
        quiet = quiet or settings["quiet"] or not ranks.is_first
        run = Run(settings, arguments, ranks)
        run.open_folder()
        if not quiet:
            announce(run)
        result = run.train(quiet)
        if ranks.is_first:
            print_result(run, result)
        return run.wanted["stop"]
    finally:
        ranks.close()


def main(words=None):
    arguments, options = parser().parse_known_args(words)
    warnings.filterwarnings("ignore", message="torch.distributed is (disabled|unavailable)")
    try:
        reason = run(arguments, options, quiet=False)
    except (Refused, kvshift.Error, OSError) as problem:
        if int(os.environ.get("LOCAL_RANK", 0)) == 0:
            print(f"train.py: {problem}", file=sys.stderr)
        sys.exit(getattr(problem, "code", 1))
    sys.exit(0 if reason == TIME_IS_UP else reason)


if __name__ == "__main__":
    main()
