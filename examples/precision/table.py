#!/usr/bin/env python3
"""Compares the runs of examples/precision/compare: DIR/f32-1, DIR/bf16-1, ...

Prints final validation losses seed by seed, and for every tap of every KV head the mean over seeds
in both precisions.  Differences are compared with the standard deviation over the seeds in f32.
"""
import json
import os
import statistics
import subprocess
import sys


def read_loss(run):
    with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
        return json.load(file)["final_loss"]


def read_taps(run):
    """All taps of a model, by name: 'layer 0 head 1 alpha1'."""
    text = subprocess.run([os.environ["KVSHIFT"], "inspect", run, "--json"], check=True,
                          stdout=subprocess.PIPE).stdout
    taps = {}
    for head in json.loads(text)["coefficients"]["kv_heads"]:
        for name in ("alpha", "beta"):
            for i, tap in enumerate(reversed(head.get(name) or []), 1):
                taps[f"layer {head['layer']} head {head['head']} {name}{i}"] = tap
    return taps


def deviation(values):
    return statistics.stdev(values) if len(values) > 1 else float("nan")


def main():
    folder, seeds = sys.argv[1], range(1, int(sys.argv[2]) + 1)
    runs = {p: [os.path.join(folder, f"{p}-{s}") for s in seeds] for p in ("f32", "bf16")}
    losses = {p: [read_loss(run) for run in runs[p]] for p in runs}
    differences = [b - f for f, b in zip(losses["f32"], losses["bf16"])]
    print(f"{'seed':<6}{'f32':>10}{'bf16':>10}{'difference':>12}")
    for seed, f32, bf16, difference in zip(seeds, losses["f32"], losses["bf16"], differences):
        print(f"{seed:<6}{f32:>10.5f}{bf16:>10.5f}{difference:>+12.5f}")
    print(f"{'mean':<6}{statistics.mean(losses['f32']):>10.5f}{statistics.mean(losses['bf16']):>10.5f}"
          f"{statistics.mean(differences):>+12.5f}")
    print(f"deviation over the seeds: f32 {deviation(losses['f32']):.5f}, "
          f"bf16 {deviation(losses['bf16']):.5f}")

    taps = {p: [read_taps(run) for run in runs[p]] for p in runs}
    names = list(taps["f32"][0])
    largest, outside, same_seed = 0.0, 0, 0.0
    print(f"\n{'tap':<28}{'f32':>9}{'bf16':>9}{'difference':>12}{'deviation':>11}")
    for name in names:
        values = {p: [run[name] for run in taps[p]] for p in taps}
        difference = statistics.mean(values["bf16"]) - statistics.mean(values["f32"])
        spread = deviation(values["f32"])
        outside += abs(difference) > spread
        largest = max(largest, abs(difference) / spread if spread > 0 else 0.0)
        same_seed = max(same_seed, *(abs(a - b) for a, b in zip(values["f32"], values["bf16"])))
        print(f"{name:<28}{statistics.mean(values['f32']):>9.4f}{statistics.mean(values['bf16']):>9.4f}"
              f"{difference:>+12.5f}{spread:>11.4f}")
    print(f"{outside} of {len(names)} differences of means exceed the deviation over the seeds; the "
          f"largest is {largest:.3f} deviations\nlargest difference within a seed: {same_seed:.5f}")


if __name__ == "__main__":
    main()
