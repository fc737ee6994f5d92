"""lm-evaluation-harness on the benchmark files that `kvshift eval` reads.

The files are converted to Hugging Face's layout, and for each task a YAML file is written that
includes the harness's own and only replaces where documents come from.  Nothing is downloaded.
"""
import contextlib
import csv
import io
import json
import os
import pathlib
import sys

for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "DISABLE_MULTIPROC"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

MATH = {"Algebra": "algebra", "Counting & Probability": "counting_and_prob", "Geometry": "geometry",
        "Intermediate Algebra": "intermediate_algebra", "Number Theory": "num_theory",
        "Prealgebra": "prealgebra", "Precalculus": "precalc"}


# ---- documents in Hugging Face's layout ----------------------------------------------------------

def lines(data, name):
    with open(os.path.join(data, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def arc(data, kind, part):
    for row in lines(data, f"arc/ARC-{kind}-{part}.jsonl"):
        question = row["question"]
        choices = {"text": [c["text"] for c in question["choices"]], "label": [c["label"] for c in question["choices"]]}
        yield {"id": row["id"], "question": question["stem"], "choices": choices, "answerKey": row["answerKey"]}


def hellaswag(data):
    """These files lack ctx_a and ctx_b."""
    for row in lines(data, "hellaswag/hellaswag_val_part.jsonl"):
        label = str(row.pop("label"))
        yield {**row, "ctx_a": row["ctx"], "ctx_b": "", "label": label}


def mmlu(data, subject, part):
    with open(os.path.join(data, "mmlu", part, f"{subject}_{part}.csv"), encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            yield {"question": row[0], "subject": subject, "choices": row[1:5], "answer": "ABCD".index(row[5])}


def cmmlu(data, subject, part):
    with open(os.path.join(data, "cmmlu", part, f"{subject}.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {key: row[key] for key in ("Question", "A", "B", "C", "D", "Answer")}


def math(data, subject):
    for row in lines(data, "math/test_part.jsonl"):
        if MATH[row["type"]] == subject:
            yield {key: row[key] for key in ("problem", "level", "type", "solution")}


def with_shots(folder, data):
    """A folder with the data and the examples of minerva_math, which come with the harness."""
    from lm_eval.tasks.minerva_math.utils import list_fewshot_samples

    folder = pathlib.Path(folder)
    (folder / "minerva").mkdir(parents=True, exist_ok=True)
    with open(folder / "minerva" / "shots.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(shot, ensure_ascii=False) + "\n" for shot in list_fewshot_samples())
    for name in os.listdir(data):
        if name != "minerva" and not (folder / name).exists():
            (folder / name).symlink_to(os.path.abspath(os.path.join(data, name)))
    return str(folder)


def subject_of(task, prefix, suffix=""):
    return task[len(prefix):len(task) - len(suffix)]


def source(task, data):
    """The harness's file, the documents of each split, and other keys to replace."""
    if task == "lambada_openai":
        return "lambada/lambada_openai.yaml", {"test": lines(data, "lambada/lambada_test.jsonl")}, {}
    if task == "winogrande":
        return "winogrande/default.yaml", {"train": lines(data, "winogrande/train_part.jsonl"),
                                           "validation": lines(data, "winogrande/dev.jsonl")}, {}
    if task == "hellaswag":
        return "hellaswag/hellaswag.yaml", {"validation": hellaswag(data)}, {"training_split": None}
    if task in ("arc_easy", "arc_challenge"):
        kind = task[4:].capitalize()
        return f"arc/{task}.yaml", {"validation": arc(data, kind, "Dev"), "test": arc(data, kind, "Test")}, {"training_split": None}
    if task.startswith("mmlu_"):
        cloze = task.endswith("_continuation")
        subject = subject_of(task, "mmlu_", "_continuation" if cloze else "")
        return (f"mmlu/{'continuation' if cloze else 'default'}/mmlu_{subject}.yaml",
                {part: mmlu(data, subject, part) for part in ("dev", "test")}, {})
    if task.startswith("cmmlu_"):
        subject = subject_of(task, "cmmlu_")
        return f"cmmlu/{task}.yaml", {part: cmmlu(data, subject, part) for part in ("dev", "test")}, {}
    for name in ("hendrycks_math", "minerva_math"):
        if task.startswith(name + "_"):
            return f"{name}/{task}.yaml", {"test": math(data, subject_of(task, name + "_"))}, {"training_split": None}
    sys.exit(f"harness.py: no rule for task '{task}'")


# ---- task files ----------------------------------------------------------------------------------

def write_tasks(folder, tasks, data):
    """Writes converted documents and task files; returns the folder of the latter."""
    import lm_eval

    own = pathlib.Path(lm_eval.__file__).parent / "tasks"
    folder = pathlib.Path(folder)
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    (folder / "tasks").mkdir(exist_ok=True)
    for task in tasks:
        included, splits, changes = source(task, data)
        files = {}
        for split, documents in splits.items():
            path = folder / "documents" / f"{task}_{split}.jsonl"
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in documents)
            files[split] = str(path)
        config = {"include": str(own / included), "task": task, "dataset_path": "json", "dataset_name": None,
                  "dataset_kwargs": {"data_files": files}, **changes}
        (folder / "tasks" / f"{task}.yaml").write_text(json.dumps(config))  # JSON is YAML
    return folder / "tasks"


# ---- runs ----------------------------------------------------------------------------------------

def evaluate(model, tasks, task_folder, shots=None, limit=None, out=None, batch=1, bootstrap=100000):
    """Runs the harness; returns its results.  `model`: a folder, or an object of the harness.  With
    `out`, result files are written there, as the harness's command writes them."""
    import lm_eval
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager

    tracker = EvaluationTracker(output_path=str(out)) if out else None
    arguments = None
    if isinstance(model, (str, os.PathLike)):
        arguments = {"pretrained": str(model), "dtype": "float32", "trust_remote_code": True}
        model = "hf"
    said = io.StringIO()  # progress bars
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        results = lm_eval.simple_evaluate(
            model=model, model_args=arguments, tasks=list(tasks), num_fewshot=shots, limit=limit, device="cpu",
            batch_size=batch, bootstrap_iters=bootstrap, log_samples=True, evaluation_tracker=tracker,
            task_manager=TaskManager(include_path=str(task_folder), include_defaults=False))
    if tracker:
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        for task, rows in samples.items():
            tracker.save_results_samples(task_name=task, samples=rows)
    return results


def read_files(folder):
    """The newest results below a folder, and the samples of each task."""
    paths = sorted(pathlib.Path(folder).rglob("results_*.json"))
    if not paths:
        sys.exit(f"harness.py: no results in '{folder}'")
    date = paths[-1].stem[len("results_"):]
    samples = {}
    for path in paths[-1].parent.glob(f"samples_*_{date}.jsonl"):
        with open(path, encoding="utf-8") as file:
            samples[path.stem[len("samples_"):-len(date) - 1]] = [json.loads(line) for line in file]
    return json.loads(paths[-1].read_text(encoding="utf-8")), samples
