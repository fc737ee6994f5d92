#!/usr/bin/env python3
"""Finds the induction heads of two models that were trained on the same task.

usage: induction_heads.py [--steps N] [--out FILE]

One model has one layer with KV shifting, the other has two ordinary layers.  An induction head at
position t of the second half reads what followed the earlier occurrence of its token: position
t - n + 1, if a half has n tokens.
With a shift of values, a head can attend to one position and read the next one, so the score of a
head is the weight by content, hook_content: the weights of the values before the shift.
"""
import argparse

import numpy as np

from picture import Picture
from repeats import batch, loss, trained


def scores(model, ids):
    """The mean weight that each head gives to the token to be copied: [layers, heads]."""
    total = 0
    for sequence in ids:
        half = len(sequence) // 2
        rows = np.arange(half, 2 * half - 1)
        _, cache = model.run_with_cache(sequence, names="blocks.*.attn.hook_content")
        total = total + np.array([content[:, rows, rows - half + 1].mean(axis=1) for content in cache.values()])
    return total / len(ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", default="induction-heads.svg")
    options = parser.parse_args()
    models = {"1 layer, shifted": trained("shifted", options.steps, layers=1, shift="kv"),
              "2 layers, plain": trained("plain", options.steps, layers=2)}
    ids, _ = batch(32, seed=10**6)
    picture = Picture("Weight on the token to be copied, by head", "induction score", 0, 1)
    groups = []
    for name, model in models.items():
        found = scores(model, ids)
        best = np.unravel_index(found.argmax(), found.shape)
        print(f"{name}: loss {loss(model, ids):.3f}, best head {best[1]} of layer {best[0]}, score {found.max():.2f}")
        groups.append([(f"{layer}.{head}", found[layer, head]) for layer, head in np.ndindex(found.shape)])
    picture.bars(groups)
    picture.text(picture.x(0.5), 332, "layer.head", anchor="middle")
    picture.legend(models)
    picture.save(options.out)


if __name__ == "__main__":
    main()
