"""The run folder, as `kvshift train --out` writes it (docs/run-folder.md).  Only rank 0 uses this file.

Checkpoints differ: `ckpt/step-N/` has the model's files, so that the commands read it, `state.json`, and
`torch/`, which torch.distributed.checkpoint writes, instead of optimizer.safetensors.  A checkpoint is
written as `ckpt/.filling` and renamed when it is complete.
"""
import datetime
import fcntl
import json
import math
import os
import pathlib
import platform
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import time
import zlib

import torch

from configuration import Refused, command

FIELDS = ("step", "loss", "lr", "accuracy", "grad_norm", "tokens", "seconds", "eval_loss", "eval_accuracy",
          "k_shift_sum", "k_shift_current", "v_shift_sum", "v_shift_current", "q_shift_sum", "q_shift_current")
TAGS = {"loss": "train/loss", "lr": "train/lr", "grad_norm": "train/grad_norm", "eval_loss": "eval/loss"}
LOGGED = ("steps", "batch", "accumulate", "warmup", "schedule", "lr", "lr-floor", "beta1", "beta2", "eps",
          "weight-decay", "shift-lr", "shift-decay", "decay-all", "only-shift", "rates", "eval-dropout", "clip",
          "precision", "seed", "eval-every", "eval-sequences")
MAY_CHANGE = {"steps", "eval_every", "eval_sequences"}


def replace(path, text):
    """Writes a file under another name and renames it: it is complete or absent."""
    new = path.with_name(f".{path.name}.new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)


def sync_folder(path):
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def short(value):
    """Numbers with 9 digits, those that are not finite as null."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return value


def cell(value):
    """A value in train.csv."""
    return "" if value is None else f"{value:.9g}" if isinstance(value, float) else str(value)


def line_of(record):
    return json.dumps({key: short(value) for key, value in record.items()}, separators=(",", ":")) + "\n"


# ---- what a run is -------------------------------------------------------------------------------

def describe(settings, training, config_json, parameters, corpus, context, ranks, how):
    """The first line of the log."""
    train, valid = corpus.split("train"), corpus.split("valid")
    return {
        "kvshift": version()["version"],
        "command": shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]]),
        "model": {key: value for key, value in config_json.items() if key != "auto_map"},  # which names files
        "parameters": parameters,
        "task": {"name": "corpus", "path": settings["data"], "vocab": corpus.vocab, "context": context,
                 "train_tokens": train.tokens, "train_windows": corpus.windows(context, "train"),
                 "valid_tokens": valid.tokens, "valid_windows": corpus.windows(context, "valid")},
        "train": {name.replace("-", "_"): training[name] for name in LOGGED},
        "threads": torch.get_num_threads(),
        "cpu_level": "torch",
        "ranks": ranks,
        "sequences_per_rank": settings["batch"] // ranks,
        "shard": settings["shard"],
        "deterministic": False,
        "torch": how,
    }


def version():
    return json.loads(subprocess.run([command(), "version", "--json"], capture_output=True, check=True).stdout)


def check_same(ours, theirs, path):
    """A resumed run must have the model, the text and the training of its checkpoint."""
    for part in "model", "task", "train":
        if not isinstance(theirs.get(part), dict):
            raise Refused(f"'{path}/state.json' has no settings '{part}'")
        compare(part, ours[part], theirs[part], path)


def compare(part, ours, theirs, path):
    for key in {**ours, **theirs}:
        now, then = ours.get(key), theirs.get(key)
        if isinstance(now, dict) and isinstance(then, dict):
            compare(part, now, then, path)
        elif now != then and not (part == "train" and key in MAY_CHANGE):
            raise Refused(f"{part} setting '{key}' is {json.dumps(now)}, but '{path}' was trained with "
                          f"{json.dumps(then)}")


def step_in(line):
    """The step of a record; infinite for a line that is not one."""
    try:
        return json.loads(line)["step"] if line.endswith("\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


# ---- the folder ----------------------------------------------------------------------------------

class Folder:
    """The files of a run.  `resume`: None = a new run, otherwise the step to continue from."""

    def __init__(self, path, first_line, settings, resume, how):
        self.path, self.resume = pathlib.Path(path), resume
        self.checkpoints = self.path / "ckpt"
        self.path.mkdir(parents=True, exist_ok=True)
        self.events = None
        log = self.path / "train.jsonl"
        self.log = open(log, "x+" if resume is None else "r+", encoding="utf-8")
        try:
            fcntl.flock(self.log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Refused(f"'{log}' is in use by another process") from None
        if resume is not None:
            self._cut(resume)
            self._retire_model(resume)
        if self.log.tell() == 0:
            self._add(first_line)
        replace(self.path / "config.resolved.toml", settings.resolved())
        facts = {**version(), "processor": processor(), "torch": how,
                 "started": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
        replace(self.path / "env.json", json.dumps(facts, indent=2) + "\n")
        with open(self.path / "command.txt", "a", encoding="utf-8") as file:
            file.write(first_line["command"] + "\n")

    def _add(self, record):
        self.log.write(line_of(record))
        self.log.flush()

    def _cut(self, last):
        """Removes the records of steps after `last`, and a line that was not finished."""
        self.log.seek(0)
        kept = [line for line in [self.log.readline()] if line.endswith("\n")]
        if not kept and last > 0:
            raise Refused(f"'{self.log.name}' does not start with a run's settings")
        while kept and step_in(line := self.log.readline()) <= last:
            kept.append(line)
        self.log.seek(0)
        self.log.truncate()
        self.log.write("".join(kept))
        self.log.flush()

    def _retire_model(self, step):
        """A run that continues has no final model, or its old weights would be used by mistake."""
        model, result = self.path / "model.safetensors", self.path / "result.json"
        if model.exists():
            if result.exists() and f'"steps": {step},' in result.read_text(encoding="utf-8", errors="replace"):
                model.unlink()
            else:
                model.rename(self.path / "model.before-resume.safetensors")
        result.unlink(missing_ok=True)

    def write_sources(self, corpus_path, sources):
        replace(self.path / "sources.json", json.dumps({"data": corpus_path, "sources": sources}, indent=2) + "\n")

    def add_step(self, record):
        self._add(record)
        if self.events is None:
            self.events = Events(self.path / "tb")
        self.events.add(record)

    def finish(self, model, result):
        """The model comes first because it cannot be made again."""
        model.save(self.path)
        rounded = {key: short(value) for key, value in result.items()}
        replace(self.path / "result.json", json.dumps(rounded, indent=2) + "\n")
        self.log.seek(0)
        self.log.readline()
        rows = [FIELDS, *([cell(json.loads(line).get(field)) for field in FIELDS] for line in self.log)]
        replace(self.path / "train.csv", "".join(",".join(row) + "\n" for row in rows))

    # ---- checkpoints ----

    @property
    def filling(self):
        return self.checkpoints / ".filling"

    def begin_checkpoint(self):
        shutil.rmtree(self.filling, ignore_errors=True)
        self.filling.mkdir(parents=True)

    def commit_checkpoint(self, model, state, is_best):
        """Called when all ranks have written their parts into `filling`/torch."""
        model.save(self.filling)
        state["files"] = files_of(self.filling / "torch")
        replace(self.filling / "state.json", json.dumps(state, indent=2) + "\n")
        sync_folder(self.filling)
        name = f"step-{state['step']:08d}"
        final = self.checkpoints / name
        if final.exists():  # of the same step, damaged or saved again
            old = self.checkpoints / ".replaced"
            shutil.rmtree(old, ignore_errors=True)
            final.rename(old)
        self.filling.rename(final)
        sync_folder(self.checkpoints)
        shutil.rmtree(self.checkpoints / ".replaced", ignore_errors=True)
        for link in ("latest", "best") if is_best else ("latest",):
            new = self.checkpoints / f".{link}.new"
            new.unlink(missing_ok=True)
            new.symlink_to(name)
            os.replace(new, self.checkpoints / link)

    def prune(self, keep, newest):
        """Removes all but the newest `keep` checkpoints (0 = none), except the best one."""
        best = self.checkpoints / "best"
        kept = os.readlink(best) if best.is_symlink() else None
        found = [path for path in steps_of(self.checkpoints) if step_of(path) <= newest]
        for path in found[:-keep] if keep else []:
            if path.name != kept:
                shutil.rmtree(path)


def existing(path):
    """The file that shows that a folder contains a run; None = there is none."""
    return next((name for name in ("train.jsonl", "model.safetensors") if (pathlib.Path(path) / name).exists()), None)


def step_of(path):
    return int(path.name.removeprefix("step-"))


def steps_of(checkpoints):
    """The folders of checkpoints, by step."""
    if not checkpoints.is_dir():
        return []
    return sorted((path for path in checkpoints.iterdir() if re.fullmatch(r"step-\d+", path.name)), key=step_of)


def newest_before(checkpoints, step):
    """The newest checkpoint before a step; None = there is none."""
    return next((path for path in reversed(steps_of(checkpoints)) if step_of(path) < step), None)


def newest_checkpoint(path):
    """The newest complete checkpoint of a run and its state, or (None, None), and what was skipped."""
    skipped = []
    for found in reversed(steps_of(pathlib.Path(path) / "ckpt")):
        try:
            state = json.loads((found / "state.json").read_text(encoding="utf-8"))
            if (found / "optimizer.safetensors").exists():
                raise ValueError("is of the C trainer")
            check_state(state)
            check_files(found / "torch", state["files"])
            return found, state, skipped
        except OSError as problem:
            skipped.append(f"'{found}' skipped: no state.json ({problem.strerror})")
        except (ValueError, RecursionError) as problem:
            skipped.append(f"'{found}' skipped: {problem}")
    return None, None, skipped


def files_of(torch_folder):
    """The sizes of the files that PyTorch wrote, and a checksum of the one that describes the others."""
    sizes = {path.name: path.stat().st_size for path in sorted(torch_folder.iterdir())}
    return {"sizes": sizes, ".metadata": zlib.crc32((torch_folder / ".metadata").read_bytes())}


def check_files(torch_folder, expected):
    if not (torch_folder / ".metadata").is_file():
        raise ValueError("torch/.metadata is missing")
    if files_of(torch_folder) != expected:
        raise ValueError("a file in torch is damaged or missing")


def check_state(state):
    """Checks what state.json has to contain."""
    run = state.get("run") if isinstance(state, dict) else None
    if not isinstance(run, dict) or not isinstance(run.get("settings"), dict) or "files" not in state:
        raise ValueError("state.json has no settings or no files")
    kinds = {"step": (int,), "tokens": (int,), "stale": (int,), "seconds": (int, float),
             "best_loss": (int, float, type(None))}
    for key, kind in kinds.items():
        value = state.get(key) if key == "step" else run.get(key)
        if type(value) not in kind or (value is not None and not value >= 0):
            raise ValueError(f"state.json has no '{key}', or a wrong one")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


# ---- TensorBoard ---------------------------------------------------------------------------------

def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC = crc_table()


def masked_crc(data):
    """CRC-32C, rotated and offset as TFRecord files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


class Events:
    """A file of events, one for each process: TFRecords of protobuf messages `Event`."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.file = open(folder / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}", "ab")
        self._event(field(3, b"brain.Event:2"))

    def _event(self, body):
        data = b"\x09" + struct.pack("<d", time.time()) + body
        size = struct.pack("<Q", len(data))
        self.file.write(size + struct.pack("<I", masked_crc(size)) + data + struct.pack("<I", masked_crc(data)))
        self.file.flush()

    def add(self, record):
        values = {tag: record[key] for key, tag in TAGS.items() if key in record}
        values["speed/tokens_per_s"] = record["tokens"] / record["seconds"]
        for letter in "kvq":
            if f"{letter}_shift_sum" in record:
                whole, current = record[f"{letter}_shift_sum"], record[f"{letter}_shift_current"]
                values |= {f"shift/{letter}_sum": whole, f"shift/{letter}_current": current,
                           f"shift/{letter}_previous": whole - current}
        summary = b"".join(field(1, field(1, tag.encode()) + b"\x15" + struct.pack("<f", value))
                           for tag, value in values.items())
        self._event(b"\x10" + varint(record["step"]) + field(5, summary))
