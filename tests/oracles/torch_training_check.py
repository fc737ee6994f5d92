#!/usr/bin/env python3
"""examples/pytorch/train.py against the trainer in C.

usage: torch_training_check.py KVSHIFT [--only TEXT]

curves        200 steps of desk-1m from the same weights on the same text: losses, norms and taps
settings      short runs with settings of the model and of training
ranks         two processes with FSDP2 for every --shard, against one process
resume        runs that are killed, of one and of two processes, and of one that continues what two began
interchange   C -> PyTorch -> C, for folders with one file and with shards, and from checkpoints
folder        the files of a run folder, and the commands that read it; the default of --out
refusals      bad input gives one line
cuda          arguments of calls for GPUs, with a stub: PyTorch is asked for the right things
Exits 77 where a module is missing.
"""
import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from unittest import mock

try:
    import kvshift
    import kvshift.torch
    import torch
    import transformers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "examples" / "pytorch" / "train.py"
sys.path.insert(0, str(TRAIN.parent))
import folder as folder_module  # noqa: E402
import ranks as ranks_module  # noqa: E402
import train  # noqa: E402
import trainer as trainer_module  # noqa: E402

TEXT = ROOT / "examples" / "texts" / "roderick-hudson.txt"
SMALL = ["--layers", "2", "--dim", "32", "--heads", "2", "--context", "32", "--batch", "4", "--steps", "6", "--warmup", "2",
         "--lr", "3e-3", "--eval-every", "3", "--eval-sequences", "6", "--threads", "1", "--quiet"]
SETTINGS = [  # options, limit of the difference of losses
    ("--accumulate 2 --clip 0.5 --schedule linear --weight-decay 0.5", 1e-5),
    ("--shift qkv --shift-form channel --shift-window 2 --shift-lr 2e-2 --shift-decay 0.3", 1e-5),
    ("--shift-form gate --positions alibi --decay-all --weight-decay 0.5", 1e-5),
    ("--shift-form clamp --recompute --tied", 1e-5),
    ("--shift-form data --sequence-tokens 20", 1e-5),
    ("--shift-form hard --rotary-fraction 0.5 --norm-kind layer", 1e-5),
    ("--body gpt2 --shift kv --beta2 0.99 --eps 1e-6", 1e-5),
    ("--shift none --sliding-window 8 --qk-norm head", 1e-5),
    ("--shift none --tied", 1e-5),
    ("--shift none --sliding-window 8 --kv-heads 1", 1e-5),
    ("--shift none --body gpt2", 1e-5),
    ("--epochs 0.02 --kv-heads 1 --schedule cosine --lr-floor 0", 1e-5),
    ("--only-shift", 1e-5),
    ("--rates embed_tokens=0,layers.0.*=0.5,k_shift=3,lm_head=0.1", 1e-5),
    ("--lr 0.1 --clip 0 --steps 30 --patience 2 --save-best --eval-every 1", 1e-3),
    ("--seed 7 --precision bf16", 3e-3),
]
failed = []
transformers.utils.logging.disable_progress_bar()


def check(name, condition, detail=""):
    print(f"{'ok   ' if condition else 'WRONG'} {name} {detail}", flush=True)
    if not condition:
        failed.append(name)


# ---- runs ----------------------------------------------------------------------------------------

class Place:
    """A folder with corpora, and both trainers."""

    def __init__(self, command, folder):
        self.command, self.folder = command, pathlib.Path(folder)
        text = TEXT.read_text(encoding="utf-8")[5000:125000]
        paragraphs = text.split("\n\n")  # documents of different lengths
        (self.folder / "text.txt").write_text("<|endoftext|>".join("\n\n".join(paragraphs[i:i + 1 + i % 4])
                                                                   for i in range(0, len(paragraphs), 4)))
        self.corpus = str(self.folder / "corpus")
        self.kvshift("data", "build", self.folder / "text.txt", "--tokenizer", "bytes", "--out", self.corpus, "--quiet",
                     "--valid", "0.1")

    def path(self, name):
        return str(self.folder / name)

    def kvshift(self, *arguments):
        done = subprocess.run([self.command, *map(str, arguments)], capture_output=True, text=True, errors="replace")
        if done.returncode != 0:
            raise RuntimeError(f"kvshift {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def in_c(self, out, *options):
        self.kvshift("train", "--data", self.corpus, "--out", self.path(out), *options)
        return log_of(self.path(out))

    def in_torch(self, out, *options):
        code, text = call("--data", self.corpus, "--out", self.path(out), *options)
        if code != 0:
            raise RuntimeError(f"train.py {' '.join(options)}: {text}")
        return log_of(self.path(out))

    def spawn(self, out, *options, ranks=1):
        """Starts train.py as a process group of its own."""
        start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else [
            sys.executable]
        return subprocess.Popen([*start, str(TRAIN), "--out", self.path(out), *options], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def call(*options):
    """Runs train.py in this process; returns the exit code and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            train.main(list(map(str, options)))
        except SystemExit as end:
            return end.code or 0, said.getvalue()
    return 0, said.getvalue()


def log_of(path):
    lines = [json.loads(line) for line in (pathlib.Path(path) / "train.jsonl").read_text().split("\n")[:-1]]
    return lines[0], lines[1:]


def difference(one, other, key):
    if [row["step"] for row in one] != [row["step"] for row in other] or any((key in a) != (key in b) for a, b in zip(one, other)):
        return math.inf
    return max((abs(a[key] - b[key]) for a, b in zip(one, other) if key in a), default=0.0)


def compare_runs(name, one, other, limit, taps=None):
    """Losses, evaluations, norms, rates, tokens and the means of taps."""
    _, ours = one
    _, theirs = other
    found = {key: difference(ours, theirs, key) for key in ("loss", "eval_loss")}
    norm = max(abs(a["grad_norm"] - b["grad_norm"]) / b["grad_norm"] for a, b in zip(ours, theirs))
    means = max(difference(ours, theirs, f"{letter}_shift_{part}") for letter in "kvq" for part in ("sum", "current"))
    same = all(difference(ours, theirs, key) == 0 for key in ("lr", "tokens"))
    check(name, max(found.values()) <= limit and norm <= 30 * limit and means <= (taps or limit) and same,
          f"loss {found['loss']:.1e}, evaluation {found['eval_loss']:.1e}, norm {norm:.1e}, means of taps {means:.1e}")


def taps_of(path):
    with kvshift.Model.load(path) as model:
        return model.taps()


def tap_difference(one, other):
    return max(float(abs(a - b).max()) for a, b in zip(taps_of(one).values(), taps_of(other).values()))


# ---- checks --------------------------------------------------------------------------------------

def check_curves(place):
    options = ["--model", "desk-1m", "--batch", "4", "--sequence-tokens", "64", "--steps", "200", "--eval-every", "50",
               "--eval-sequences", "32", "--threads", "1", "--quiet"]
    compare_runs("desk-1m, 200 steps", place.in_torch("desk-torch", *options), place.in_c("desk-c", *options), 1e-4)
    size = tap_difference(place.path("desk-torch"), place.path("desk-c"))
    check("desk-1m, taps after 200 steps", size <= 1e-4, f"{size:.1e}")


def check_settings(place):
    for number, (options, limit) in enumerate(SETTINGS):
        words = [*SMALL, *options.split()]
        if "--epochs" in words:
            del words[words.index("--steps"):words.index("--steps") + 2]
        ours, theirs = place.in_torch(f"p{number}", *words), place.in_c(f"c{number}", *words)
        compare_runs(options, ours, theirs, limit)
        for part in "model", "task", "train", "parameters":
            if part != "model" or ours[0]["model"]["model_type"] == "kvshift":  # C logs other families as kvshift
                check(f"{options}: {part} in the log", ours[0][part] == theirs[0][part])
        place.kvshift("report", place.path(f"p{number}"))
        ours, theirs = (json.loads((place.folder / f"{name}{number}" / "result.json").read_text()) for name in "pc")
        check(f"{options}: result.json", ours["steps"] == theirs["steps"]
              and abs(ours["final_loss"] - theirs["final_loss"]) <= limit, f"{ours['steps']} steps, {ours['final_loss']:.4f}")
        files = [(pathlib.Path(place.path(f"{name}{number}")) / "config.resolved.toml").read_text().replace(f"p{number}", f"c{number}")
                 for name in ("p", "c")]
        check(f"{options}: config.resolved.toml", files[0] == files[1], sorted({*files[0].split("\n")} ^ {*files[1].split("\n")}))
    compare_runs("--attention eager", place.in_torch("eager", *SMALL, "--attention", "eager"), place.in_c("eager-c", *SMALL), 1e-5)
    compare_runs("--compile", place.in_torch("compiled", *SMALL, "--compile"), place.in_c("compiled-c", *SMALL), 1e-5)
    (place.folder / "ids.bin").write_bytes(struct.pack("<4000H", *(i * i % 61 for i in range(4000))))
    words = [*SMALL, "--vocab", "61", "--data", place.path("ids.bin")]
    place.corpus, corpus = place.path("ids.bin"), place.corpus
    compare_runs("a file of ids", place.in_torch("ids-torch", *words), place.in_c("ids-c", *words), 1e-5)
    place.corpus = corpus
    config = {"model": {"layers": 2, "dim": 32, "heads": 2, "context": 32}, "training": {"steps": 3, "batch": 4}, "data": corpus}
    (place.folder / "run.json").write_text(json.dumps(config))
    code, text = call("--config", place.path("run.json"), "--out", place.path("from-json"), "--quiet")
    check("a configuration file in JSON", code == 0 and len(log_of(place.path("from-json"))[1]) == 3, text if code else "")


def check_ranks(place):
    options = ["--data", place.corpus, *SMALL, "--accumulate", "2", "--clip", "0.5", "--checkpoint-every", "6"]
    place.in_torch("alone", *options)
    for stage in "none", "optimizer", "gradients", "parameters":
        process = place.spawn(f"two-{stage}", *options, "--shard", stage, ranks=2)
        said, _ = process.communicate(timeout=600)
        if process.returncode != 0:
            check(f"two ranks, --shard {stage}", False, said)
            continue
        compare_runs(f"two ranks, --shard {stage}", log_of(place.path(f"two-{stage}")), log_of(place.path("alone")), 1e-5)
        size = tap_difference(place.path(f"two-{stage}"), place.path("alone"))
        check(f"two ranks, --shard {stage}: taps", size <= 1e-5, f"{size:.1e}")
    process = place.spawn("four", *options, "--shard", "parameters", "--replicas", "2", ranks=4)
    said, _ = process.communicate(timeout=600)
    if process.returncode != 0:
        check("four ranks, --replicas 2", False, said)
    else:
        compare_runs("four ranks, --replicas 2", log_of(place.path("four")), log_of(place.path("alone")), 1e-5)
    others = "--recompute --compile --only-shift --precision bf16"
    place.in_torch("alone-2", *options, *others.split())
    process = place.spawn("two-2", *options, *others.split(), "--shard", "parameters", ranks=2)
    said, _ = process.communicate(timeout=600)
    if process.returncode != 0:
        check(f"two ranks, {others}", False, said)
    else:
        compare_runs(f"two ranks, {others}", log_of(place.path("two-2")), log_of(place.path("alone-2")), 1e-3)


def kill_at(place, out, step, *options, ranks=1):
    """Starts a run and kills all of its processes when the log has a step."""
    process = place.spawn(out, *options, ranks=ranks)
    log = pathlib.Path(place.path(out)) / "train.jsonl"
    until = time.monotonic() + 300
    while not (log.exists() and f'"step":{step},' in log.read_text()) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    ended = process.poll() is not None
    os.killpg(process.pid, signal.SIGKILL)
    said, _ = process.communicate()
    return "" if not ended else said


def check_resume(place):
    options = ["--data", place.corpus, *SMALL, "--steps", "40", "--checkpoint-every", "5", "--eval-every", "10", "--keep", "2"]
    place.in_torch("whole", *options, "--dropout", "0.1")
    said = kill_at(place, "killed", 12, *options, "--dropout", "0.1")
    check("killed at step 12", not said, said)
    with open(place.folder / "killed" / "train.jsonl", "a") as file:
        file.write('{"step":99,"lo')  # a line that was not finished
    (place.folder / "killed" / "ckpt" / ".filling" / "torch").mkdir(parents=True, exist_ok=True)
    said = kill_at(place, "killed", 27, "--resume")
    check("resumed, killed at step 27", not said, said)
    code, text = call("--resume", "--out", place.path("killed"))
    check("resumed, to the end", code == 0, text if code else "")
    compare_runs("the curve of a run that was killed twice", log_of(place.path("killed")), log_of(place.path("whole")), 1e-6)
    one, other = (torch.from_numpy(kvshift.Model.load(place.path(name)).tensor("model.embed_tokens.weight")) for name in ("killed", "whole"))
    check("its weights", float((one - other).abs().max()) <= 1e-6, f"{float((one - other).abs().max()):.1e}")
    left = sorted(os.listdir(place.path("killed/ckpt")))
    check("--keep 2", [name for name in left if name.startswith("step")][-2:] == ["step-00000035", "step-00000040"] and len(left) <= 5, left)

    shutil.copytree(place.path("whole"), place.path("damaged"), symlinks=True)
    for name in "model.safetensors", "result.json":
        os.unlink(place.path(f"damaged/{name}"))
    os.truncate(place.path("damaged/ckpt/step-00000040/torch/__0_0.distcp"), 1000)
    code, said = call("--resume", "--out", place.path("damaged"))
    check("a damaged checkpoint is skipped", code == 0 and "step-00000040' skipped: a file in torch is damaged" in said, said)
    compare_runs("its curve", log_of(place.path("damaged")), log_of(place.path("whole")), 0)

    place.in_torch("whole, no dropout", *options)
    said = kill_at(place, "killed-two", 12, *options, "--shard", "parameters", ranks=2)
    check("two ranks, killed at step 12", not said, said)
    code, text = call("--resume", "--out", place.path("killed-two"), "--shard", "none")
    check("one process continues what two began", code == 0, text if code else "")
    compare_runs("its curve", log_of(place.path("killed-two")), log_of(place.path("whole, no dropout")), 1e-5)

    process = place.spawn("stopped", *options, "--steps", "4000", "--eval-every", "1000", "--checkpoint-every", "0")
    while not (place.folder / "stopped" / "tb").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGUSR1)
    latest, until = place.folder / "stopped" / "ckpt" / "latest", time.monotonic() + 60
    while not latest.exists() and time.monotonic() < until:
        time.sleep(0.02)
    check("SIGUSR1: a checkpoint, and the run continues", latest.exists() and process.poll() is None)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=300)
    _, rows = log_of(place.path("stopped"))
    check("SIGTERM: exit code, checkpoint and model", process.returncode == 143 and (
        place.folder / "stopped" / "model.safetensors").exists() and (
        place.folder / "stopped" / "ckpt" / f"step-{rows[-1]['step']:08d}" / "torch" / ".metadata").exists(), said[-200:])


def check_interchange(place):
    start = place.path("start")
    place.in_c("start", *SMALL, "--shift-window", "2", "--checkpoint-every", "3")
    model = kvshift.torch.KVShiftForCausalLM.from_pretrained(start)
    model.save_pretrained(place.path("sharded"), max_shard_size="20KB")
    parts = [name for name in os.listdir(place.path("sharded")) if name.endswith(".safetensors")]
    check("a folder with shards", len(parts) > 2, len(parts))
    more = SMALL[8:]  # without the model's shape
    for name, path in (("one file", start), ("shards", place.path("sharded")), ("a checkpoint of C", place.path("start/ckpt/latest"))):
        ours = place.in_torch(f"torch from {name}", "--init-from", path, *more)
        compare_runs(f"C -> PyTorch, {name}", ours, place.in_c(f"c from {name}", "--init-from", path, *more), 1e-5)
    done = place.path("torch from one file")
    ids = torch.randint(0, 256, (20,), generator=torch.manual_seed(1))
    again = kvshift.torch.KVShiftForCausalLM.from_pretrained(done).eval()
    with torch.no_grad():
        expected = again(input_ids=ids[None]).logits[0]
    with kvshift.Model.load(done) as library:
        found = torch.from_numpy(library.logits(ids.tolist()))
    size = float((found - expected).abs().max() / expected.abs().max())
    check("PyTorch -> C: logits", size <= 3e-6, f"{size:.1e}")
    again.save_pretrained(place.path("sharded again"), max_shard_size="20KB")
    with kvshift.Model.load(place.path("sharded again")) as library:
        same = bool((torch.from_numpy(library.logits(ids.tolist())) == found).all())
    check("PyTorch -> shards -> C: the same logits", same)
    process = place.spawn("by two", "--data", place.corpus, "--init-from", start, *more, "--shard", "parameters",
                          "--checkpoint-every", "3", ranks=2)
    said, _ = process.communicate(timeout=600)
    check("two ranks", process.returncode == 0, said if process.returncode else "")
    for name in "by two", "by two/ckpt/latest":
        out = name.replace("/", " ")
        compare_runs(f"continued from '{name}'", place.in_torch(f"torch from {out}", "--init-from", place.path(name), *more),
                     place.in_c(f"c from {out}", "--init-from", place.path(name), *more), 1e-5)
    place.in_c("plain", *SMALL, "--shift", "none")
    compare_runs("--retrofit", place.in_torch("retrofit", "--init-from", place.path("plain"), "--retrofit", "kv", *more),
                 place.in_c("retrofit-c", "--init-from", place.path("plain"), "--retrofit", "kv", *more), 1e-5)


def events(path):
    """Steps, tags and values of the file of TensorBoard in a run folder, with correct checksums."""
    [name] = (pathlib.Path(path) / "tb").iterdir()
    data, at, found = name.read_bytes(), 0, {}
    while at < len(data):
        [size] = struct.unpack_from("<Q", data, at)
        body = data[at + 12:at + 12 + size]
        sums = struct.unpack_from("<I", data, at + 8)[0], struct.unpack_from("<I", data, at + 12 + size)[0]
        if sums != (folder_module.masked_crc(data[at:at + 8]), folder_module.masked_crc(body)):
            raise ValueError(f"{name}: wrong checksum at {at}")
        at += 16 + size
        fields = dict(message(body))
        for number, value in message(fields[5]) if 5 in fields else ():
            tag = dict(message(value))
            found[fields[2], tag[1].decode()] = struct.unpack("<f", tag[2])[0]
    return found


def message(data):
    """Fields of a message of protobuf."""
    def varint(at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if not data[at - 1] & 128:
                return value, at

    at = 0
    while at < len(data):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
        else:
            size = {1: 8, 5: 4}.get(key & 7)
            if size is None:
                size, at = varint(at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def check_folder(place):
    run, other = place.path("f-torch"), place.path("f-c")
    place.in_torch("f-torch", *SMALL, "--checkpoint-every", "3")
    place.in_c("f-c", *SMALL, "--checkpoint-every", "3")
    check("the same files", sorted(os.listdir(run)) == sorted(os.listdir(other)), sorted({*os.listdir(run)} ^ {*os.listdir(other)}))
    for name in "config.json", "tokenizer.json", "sources.json":
        check(f"{name}: the same bytes", pathlib.Path(run, name).read_bytes() == pathlib.Path(other, name).read_bytes())
    check("train.csv: the same columns", *(lambda a, b: (a == b, a))(*(pathlib.Path(p, "train.csv").read_text().split("\n")[0] for p in (run, other))))
    check("train.csv: every step", len(pathlib.Path(run, "train.csv").read_text().split("\n")) == 8)
    results = [json.loads(pathlib.Path(p, "result.json").read_text()) for p in (run, other)]
    check("result.json", results[0].keys() == results[1].keys() and abs(results[0]["final_loss"] - results[1]["final_loss"]) < 1e-5)
    ours, theirs = ({key: value for key, value in events(p).items() if not key[1].startswith("shift_layer")} for p in (run, other))
    check("TensorBoard: the same values", ours.keys() == theirs.keys() and all(
        abs(ours[key] - theirs[key]) < 1e-3 for key in ours if not key[1].startswith("speed")), sorted(ours.keys() ^ theirs.keys())[:3])
    check("read_run", len(kvshift.read_run(run).steps["loss"]) == 6)
    commands = [("report", run, other), ("analyze", run), ("generate", "-m", run, "-p", "Rowland", "-n", "8"),
                ("generate", "-m", f"{run}/ckpt/latest", "-p", "Rowland", "-n", "8"), ("ppl", "-m", run, place.folder / "text.txt"),
                ("inspect", run)]
    shared = pathlib.Path(os.environ.get("KVSHIFT_SHARED", ROOT / ".." / "shared")) / "data"
    if shared.is_dir():
        commands.append(("eval", "-m", run, "--tasks", "lambada_openai", "--data", shared, "--limit", "2"))
    for words in commands:
        try:
            place.kvshift(*words)
            check(f"kvshift {words[0]}", True)
        except RuntimeError as problem:
            check(f"kvshift {words[0]}", False, problem)
    again = place.in_c("f-again", "--config", f"{run}/config.resolved.toml", "--out", place.path("f-again"))
    compare_runs("'kvshift train --config' of the resolved settings", again, log_of(other), 0)


def check_default_folder(place):
    """Without --out, in another folder of work."""
    before = os.getcwd()
    os.chdir(place.folder)
    try:
        for _ in range(2):
            call("--data", place.corpus, *SMALL, "--steps", "1")
        place.kvshift("train", "--data", place.corpus, *SMALL, "--steps", "1")
        check("the default of --out", sorted(os.listdir("runs")) == ["corpus-1", "corpus-2", "corpus-3"], os.listdir("runs"))
        same = [(place.folder / "runs" / name / "config.resolved.toml").read_text().replace("corpus-2", "corpus-3")
                for name in ("corpus-2", "corpus-3")]
        check("the default of --out: config.resolved.toml", same[0] == same[1], sorted({*same[0].split("\n")} ^ {*same[1].split("\n")}))
        code, said = call("--data", place.corpus, *SMALL, "--steps", "1", "--out", "none")
        check("--out none", code == 0 and "files     none" in said and len(os.listdir("runs")) == 3, said)
    finally:
        os.chdir(before)


def check_refusals(place):
    place.in_torch("taken", *SMALL, "--steps", "2")
    place.in_c("of c", *SMALL, "--steps", "2", "--checkpoint-every", "2")
    (place.folder / "bad.toml").write_text("[training]\nsteps = 3\nstpes = 4\n")
    (place.folder / "bad.json").write_text('{"training": {"lr": "fast"}}')
    (place.folder / "only.toml").write_text("[start-from]\nlora = 4\n[run]\ncpu-level = \"avx2\"\n")
    (place.folder / "lora.toml").write_text("[run]\nlora = 4\ninit-from = \"" + place.path("taken") + "\"\n")
    (place.folder / "more.txt").write_text("The tokenizer of this text is another one. " * 200)
    place.kvshift("tokenizer", "train", place.folder / "more.txt", "--vocab", "280", "--out", place.folder / "other.json")
    place.kvshift("data", "build", place.folder / "text.txt", "--tokenizer", place.folder / "other.json", "--out", place.path("other"), "--quiet")
    here, new = ["--data", place.corpus], ["--out", place.path("new")]
    os.makedirs(place.path("broken/ckpt/step-00000002/torch"))
    pathlib.Path(place.path("broken/train.jsonl")).write_text("{}\n")
    cases = [
        ("unknown key", ["--config", place.path("bad.toml"), *new], "unknown key 'stpes'; did you mean 'steps'?"),
        ("wrong type", ["--config", place.path("bad.json"), *new], "'lr'"),
        ("unknown option", [*here, *new, "--frobnicate", "3"], "--frobnicate"),
        ("key of the C trainer", [*here, *new, "--config", place.path("lora.toml")], "option '--lora' is 4, expected 0"),
        ("option of the C trainer", [*here, *new, "--pack-weights", "no"], "option '--pack-weights' is no, expected auto"),
        ("missing corpus", ["--data", place.path("nowhere"), *new], f"cannot open '{place.path('nowhere')}"),
        ("no text", new, "there is no text to train on"),
        ("a text file", ["--data", place.folder / "text.txt", *new], "expected a corpus or a file of ids"),
        ("another tokenizer", ["--data", place.path("other"), "--init-from", place.path("taken"), *new], "--new-tokenizer"),
        ("existing run", [*here, *SMALL, "--out", place.path("taken")], "already holds a run ('train.jsonl'); --resume continues it"),
        ("nothing to resume", ["--resume", *SMALL, *here, *new], "has no complete checkpoint of PyTorch to continue from"),
        ("a run of the C trainer", ["--resume", "--out", place.path("of c")], "has no complete checkpoint of PyTorch"),
        ("damaged checkpoint", ["--resume", *here, *SMALL, "--out", place.path("broken")], "has no complete checkpoint of PyTorch"),
        ("another value on resume", ["--resume", "--out", place.path("taken"), "--lr", "0.5"], "option '--lr' is 0.5, but the run in"),
        ("resume without a folder", ["--resume", *here], "option '--resume' needs '--out'"),
        ("checkpoints without a folder", [*here, "--out", "none", "--checkpoint-every", "3"], "option '--checkpoint-every' needs '--out'"),
        ("model that differs", [*here, *new, "--init-from", place.path("taken"), "--dim", "64"], "option '--dim' is 64, but the model in"),
        ("no such model", [*here, *new, "--init-from", place.path("nowhere")], "nowhere"),
        ("no GPU", [*here, *SMALL, *new, "--device", "cuda"], "option '--device' is cuda, but PyTorch finds no GPU"),
        ("rates", [*here, *SMALL, *new, "--rates", "nothing=2"], "rates: no tensor is named 'nothing'"),
        ("rates of 0", [*here, *SMALL, *new, "--rates", "*=0"], "every tensor is frozen"),
        ("save-best", [*here, *SMALL, *new, "--save-best", "--eval-every", "0"], "'--save-best' needs evaluations"),
        ("replicas", [*here, *SMALL, *new, "--replicas", "2"], "option '--replicas' is 2, expected a divisor of the number of ranks, 1"),
        ("long sequences", [*here, *SMALL, *new, "--sequence-tokens", "64"], "--sequence-tokens"),
        ("attention", [*here, *SMALL, *new, "--attention", "nonsense"], "PyTorch cannot train this model"),
        ("unwritable folder", [*here, *SMALL, "--out", "/proc/nothing/here"], "cannot write into '/proc'"),
        ("a file as a folder", [*here, *SMALL, "--out", place.folder / "text.txt"], "text.txt"),
    ]
    for name, options, words in cases:
        code, said = call(*options)
        lines = [line for line in said.strip().split("\n") if "skipped" not in line]
        check(f"refused: {name}", code in (1, 2) and len(lines) == 1 and lines[0].startswith("train.py: ") and words in said, said.strip())
    check("nothing is half-written", not os.path.exists(place.path("new")))
    code, said = call(*here, *SMALL, "--lr", "999", "--clip", "0", *new)
    check("divergence", code == 1 and "diverged: loss" in said and "a lower learning rate" in said and len(said.strip().split("\n")) == 1, said)
    code, said = call("--help")
    check("--help", code == 0 and "torchrun" in said and "--shift-lr" in said and max(map(len, said.split("\n"))) <= 100)


def check_cuda(place):
    """No GPU is used: this records what PyTorch is asked for."""
    calls = mock.MagicMock()
    environment = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    with contextlib.ExitStack() as stack:
        for name, value in (("torch.cuda.is_available", lambda: True), ("torch.cuda.device_count", lambda: 2),
                            ("torch.cuda.set_device", calls.set_device), ("ranks.dist.init_process_group", calls.start),
                            ("ranks.init_device_mesh", calls.mesh), ("ranks.fully_shard", calls.shard)):
            stack.enter_context(mock.patch(name, value))
        stack.enter_context(mock.patch.dict(os.environ, environment))
        ranks = ranks_module.Ranks("auto", 30)
        check("cuda: device of the local rank", ranks.device == torch.device("cuda", 1) and calls.set_device.call_args.args == (1,))
        started = calls.start.call_args
        check("cuda: nccl", started.args == ("nccl",) and started.kwargs["device_id"] == torch.device("cuda", 1)
              and started.kwargs["timeout"].total_seconds() == 1800)
        for stage, replicas, shape, again in (("none", 1, (8, 1), False), ("gradients", 1, (1, 8), False),
                                              ("parameters", 2, (2, 4), True)):
            calls.shard.reset_mock()
            layers, model = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)], torch.nn.Linear(2, 2)
            ranks.shard(model, stage, replicas, layers)
            check(f"cuda: --shard {stage}", calls.mesh.call_args.args == ("cuda", shape) and [
                (entry.args[0], entry.kwargs["reshard_after_forward"]) for entry in calls.shard.call_args_list
            ] == [(part, again) for part in (*layers, model)])
        with mock.patch.dict(os.environ, {"LOCAL_RANK": "2"}):
            try:
                ranks_module.Ranks("cuda", 30)
                check("cuda: more ranks than GPUs are refused", False)
            except train.Refused as problem:
                check("cuda: more ranks than GPUs are refused", "this machine has 2" in str(problem), problem)
    with mock.patch("torch.optim.AdamW") as adamw:
        model = trainer_module.torch_model(json.loads(pathlib.Path(place.path("cuda-c"), "config.json").read_text()), "sdpa") if (
            place.in_c("cuda-c", *SMALL, "--steps", "1")) else None
        trainer_module.optimizer_of(model, kvshift.TrainConfig(lr=1e-3, beta1=0.8), torch.device("cuda", 1))
        check("cuda: fused AdamW", adamw.call_args.kwargs["fused"] is True and adamw.call_args.kwargs["betas"] == (0.8, 0.95))
        decays = {group["name"]: group["weight_decay"] for group in adamw.call_args.args[0]}
        check("weight decay of the groups", decays == {"matrices": 0.1, "gains": 0.0, "shift": 0.0}, decays)
    run = mock.Mock(settings={"precision": "bf16"}, ranks=mock.Mock(device=torch.device("cuda", 1)))
    with mock.patch("torch.autocast") as autocast:
        trainer_module.Trainer.autocast(run)
        check("cuda: autocast", autocast.call_args == mock.call("cuda", dtype=torch.bfloat16))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    command = os.path.abspath(arguments.command)
    os.environ["PATH"] = f"{os.path.dirname(command)}:{os.environ['PATH']}"
    checks = {"curves": check_curves, "settings": check_settings, "ranks": check_ranks, "resume": check_resume,
              "interchange": check_interchange, "folder": check_folder, "default-folder": check_default_folder, "refusals": check_refusals, "cuda": check_cuda}
    for name, function in checks.items():
        if arguments.only in name:
            with tempfile.TemporaryDirectory() as folder:
                started = time.monotonic()
                function(Place(command, folder))
                print(f"     {name}: {time.monotonic() - started:.0f} s", flush=True)
    print(f"{len(failed)} failed" if failed else "all checks passed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
