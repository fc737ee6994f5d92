"""The settings of a run, which are those of `kvshift train`.

The command itself reads options, files, presets and the environment: `kvshift train ... --print-config`
prints every value with its source, and refuses what it does not know.  What is left for this file:
settings that only the C trainer has are refused, and values that follow from the text are computed as
the command computes them.
"""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import tomllib

import kvshift

TRAINING = kvshift.train_settings().keys()
MODEL = kvshift.model_settings().keys()
# Settings of `kvshift train` that have an effect here, besides those of the model.
SUPPORTED = {
    "start from": ["model", "init-from", "retrofit", "new-tokenizer"],
    "text": ["data", "valid-data", "sequence-tokens"],
    "training": ["epochs", "steps", "batch", "accumulate", "warmup", "schedule", "lr", "lr-floor", "beta1",
                 "beta2", "eps", "weight-decay", "shift-lr", "shift-decay", "decay-all", "only-shift",
                 "rates", "eval-dropout", "clip", "recompute", "precision", "eval-every", "eval-sequences",
                 "patience"],
    "ranks": ["shard", "rank-timeout"],
    "run": ["seed", "save-best", "checkpoint-every", "keep", "threads", "out", "max-time", "resume", "quiet", "json"],
}
ENDINGS = (".gz", ".zst", ".txt", ".md", ".jsonl", ".json", ".shard", ".bin", ".csv")
TEXT_FILES = (".txt", ".md", ".json", ".jsonl", ".zst", ".gz", ".csv")
CONTEXT, EVAL_WINDOWS, HELD_OUT = 256, 256, 0.05  # defaults for text
LINE = re.compile(r'(# )?([a-z0-9-]+) = ("(?:[^"\\]|\\.)*"|.*?)\s+# (.*)')
VALUE_COLUMN = 34


class Refused(Exception):
    """The run cannot start.  The message is one line."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


# ---- the command ---------------------------------------------------------------------------------

def command():
    """The path of the command `kvshift`: that of the package, or the first one in PATH."""
    own = pathlib.Path(kvshift.__file__).parent / "bin" / "kvshift"
    found = str(own) if own.is_file() else shutil.which("kvshift")
    if not found:
        raise Refused("there is no command 'kvshift': install the package with pip")
    return found


def print_config(arguments, environment=None):
    """The output of --print-config: a TOML file with the source of each value as a comment."""
    done = subprocess.run([command(), "train", *arguments, "--print-config"], capture_output=True, text=True,
                          errors="surrogateescape", env=environment)
    if done.returncode != 0:
        raise Refused(done.stderr.strip().removeprefix("kvshift: "), done.returncode)
    return done.stdout


# ---- values and sources --------------------------------------------------------------------------

class Settings:
    """Values by the names of options, `settings["eval-every"]`; None = not set."""

    def __init__(self, arguments):
        self.text = print_config(arguments)
        self.values, self.sources = read(self.text)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("KVSHIFT_")}
        self.defaults, _ = read(print_config([], plain))
        self.refuse_unsupported()

    def __getitem__(self, name):
        return self.values.get(name)

    def is_given(self, name):
        """Whether the caller has set it, or the run that is resumed."""
        return self.sources.get(name, "").startswith(("file ", "environment ", "command line"))

    def refuse_unsupported(self):
        known = {name for names in SUPPORTED.values() for name in names} | MODEL | {"dropout"}
        if self["data"] is None:
            raise Refused("there is no text to train on: give --data CORPUS; 'kvshift train' trains on tasks", 2)
        if self["data"].endswith(TEXT_FILES) and not os.path.isdir(self["data"]):
            raise Refused(f"'{self['data']}': expected a corpus or a file of ids, found a text; 'kvshift data build' "
                          "makes a corpus of it, and 'kvshift train' trains on conversations", 2)
        for name, value in self.values.items():
            if name not in known and value is not None and value != self.defaults.get(name):
                raise Refused(f"option '--{name}' is {value}, expected {self.defaults.get(name, 'none')}: only the C "
                              f"trainer has it ({self.sources[name]})", 2)

    # ---- values that follow from others ----

    def set_computed(self, name, value):
        """Sets a value and its line in config.resolved.toml."""
        self.values[name] = value
        line = f"{name} = {toml(value)}".ljust(VALUE_COLUMN) + " # computed from other settings"
        self.text = re.sub(rf"^(?:# {name} is (?:computed|not set).*|{name} = .*)$", lambda _: line, self.text,
                           flags=re.MULTILINE)

    def take_out(self):
        """The run folder, as the command chooses it; None = nothing is saved."""
        if self["out"] == "none":
            self.values["out"] = None
        elif self["out"] is None and self["resume"]:
            raise Refused("option '--resume' needs '--out': the folder of the run", 2)
        elif self["out"] is None:
            number, name = 1, stem(self["data"])
            while os.path.lexists(f"runs/{name}-{number}"):
                number += 1
            self.set_computed("out", f"runs/{name}-{number}")
        if self["checkpoint-every"] and not self["out"]:
            raise Refused("option '--checkpoint-every' needs '--out'", 2)

    def take_text(self, windows, valid_windows):
        """Steps and evaluations that follow from the number of windows of the text."""
        if self["epochs"]:
            steps = max(1, math.ceil(self["epochs"] * windows / self["batch"]))
            if not self.is_given("steps"):
                self.set_computed("steps", steps)
            elif self["steps"] != steps and not self["resume"]:
                raise Refused(f"option '--steps' is {self['steps']}, but '--epochs' {self['epochs']:g} makes {steps} "
                              f"steps of {windows} sequences", 2)
            if not self.is_given("warmup") and steps // 10 < self["warmup"]:
                self.set_computed("warmup", steps // 10)
        if not self.is_given("eval-sequences"):
            self.set_computed("eval-sequences", min(valid_windows, EVAL_WINDOWS))
        if not self.is_given("eval-every"):
            self.set_computed("eval-every", usual_eval_every(self["steps"]))

    def take_model(self, config):
        """The complete configuration of a new model.  A model that was loaded has its own."""
        for name, value in config.items():
            if self.values.get(name) != value and (name in self.values or f"# {name} is computed" in self.text):
                self.set_computed(name, value)

    def resolved(self):
        """config.resolved.toml: a file for --config that gives the same run, also for `kvshift train`."""
        return re.sub(r"^resume = .*$", "# resume is not set: start a new run", self.text, flags=re.MULTILINE)

    def model(self):
        """Settings of the model that were given or come from a preset, by name."""
        return {name: self.values[name] for name in MODEL if self.values.get(name) is not None}

    def training(self):
        """The settings of training as the library takes them."""
        return kvshift.TrainConfig(**{name: self.values[name] for name in TRAINING if name in self.values})


def toml(value):
    """A value as --print-config writes it."""
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, list):
        return "[" + ",".join(toml(element) for element in value) + "]"
    return json.dumps(value)


def read(text):
    """Values and sources of a file that --print-config has printed."""
    values = {name: value for part in tomllib.loads(text).values()
              for name, value in (part.items() if isinstance(part, dict) else ())}
    sources = {}
    for line in text.split("\n"):
        found = LINE.fullmatch(line)
        if found and not found[1]:
            sources[found[2]] = found[4]
    return values, sources


def stem(path):
    """The name of a file or a folder without endings."""
    name = os.path.basename(os.path.normpath(path))
    while ending := next((ending for ending in ENDINGS if name.endswith(ending) and name != ending), None):
        name = name.removesuffix(ending)
    return name if name.strip(".") else "text"


def usual_eval_every(steps):
    """10 to 20 evaluations per run, at a round number of steps."""
    every, unit = 1 if steps < 20 else 2 if steps < 50 else 5, 1
    while unit <= steps // 100:
        for round in 10, 20, 25, 50:
            if round <= steps // 10 // unit:
                every = round * unit
        unit *= 10
    return every


# ---- text ----------------------------------------------------------------------------------------

def open_text(settings, vocab):
    """The corpus of --data and its windows; `vocab` = size of the vocabulary, which files of ids do not
    contain, or 0."""
    path, is_file = settings["data"], os.path.isfile(settings["data"])
    if is_file and not vocab and not path.endswith(".shard"):
        raise Refused(f"'{path}' is not a corpus; for a .bin of llm.c or nanoGPT give its vocabulary size with "
                      "--vocab; for text, build a corpus with 'kvshift data build'", 2)
    corpus = kvshift.Corpus(path, vocab=vocab if is_file else 0, valid=settings["valid-data"])
    if is_file and settings["valid-data"] is None:
        corpus.hold_out(HELD_OUT)
    return corpus


def check_tokenizers(settings, model, corpus):
    """A model that training starts from must have the tokenizer of the corpus: with another one the
    same ids mean other text."""
    ours, theirs = corpus.tokenizer(), model.tokenizer
    if ours is None or theirs is None or ours.hash == theirs.hash:
        return
    if not settings["new-tokenizer"]:
        raise Refused(f"the tokenizer of '{settings['init-from']}' (hash {theirs.hash:016x}) differs from that of "
                      f"'{settings['data']}' (hash {ours.hash:016x}); --new-tokenizer trains with the latter")
    model.eos = []  # they were ids of the old tokenizer


def make_model(settings, corpus):
    """The library's model with its first weights: those of --init-from, or random ones, which are those
    of `kvshift train` with the same seed.  Sets the options of the model that follow from others."""
    if settings["init-from"]:
        try:
            model = kvshift.Model.load(settings["init-from"], mapped=False)
        except ValueError as problem:  # its tokenizer does not fit
            raise Refused(f"'{settings['init-from']}': {problem}") from None
        if settings["retrofit"]:
            model = model.retrofit(settings["retrofit"])
        check_tokenizers(settings, model, corpus)
        model.tokenizer = corpus.tokenizer() or model.tokenizer
        return model
    wanted = settings.model()
    wanted["context"] = wanted.get("context") or CONTEXT
    if not settings.is_given("vocab"):
        wanted["vocab"] = corpus.vocab
    config = kvshift.ModelConfig(**wanted)
    config.finish()
    settings.take_model(dict(config))
    model = kvshift.Model.create(config=config, seed=settings["seed"])
    model.tokenizer = corpus.tokenizer()
    return model
