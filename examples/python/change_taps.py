#!/usr/bin/env python3
"""Changes the coefficients of a trained model and measures what they do.

usage: change_taps.py [--steps N] [--out FILE]

The model has one layer with KV shifting and was trained on repeated tokens.  The taps of its keys
(alpha) and of its values (beta), of all heads, become (1 - x, x): x = 1 is ordinary attention, x = 0
takes the previous token's key or value alone.  The model itself is not changed.
"""
import argparse

import numpy as np

from picture import Picture
from repeats import VOCAB, batch, loss, trained


def changed(model, targets, x):
    """Taps of all heads, the one of the previous token first."""
    heads = model.taps()["k"].shape[1]
    return {(0, target, head): (1 - x, x) for target in targets for head in range(heads)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", default="change-taps.svg")
    options = parser.parse_args()
    model = trained("shifted", options.steps, layers=1, shift="kv")
    for target, values in model.taps().items():
        for head, (previous, current) in enumerate(values[0]):
            print(f"{target}, head {head}: previous {previous:+.2f}, current {current:+.2f}")
    ids, _ = batch(32, seed=10**6)
    own = loss(model, ids)
    xs = np.linspace(0, 1, 21)
    curves = {}
    for name, targets in (("keys", "k"), ("values", "v"), ("both", "kv")):
        curves[name] = []
        for x in xs:
            with model.taps(changed(model, targets, float(x))):
                curves[name].append(loss(model, ids))
    guessing = float(np.log(VOCAB))
    picture = Picture(f"Loss with other taps (its own: {own:.2f})", "loss of the second half", 0, 2 * guessing)
    picture.curves(xs.tolist(), list(curves.values()), "tap of the current token; that of the previous one is 1 - x")
    picture.legend(curves)
    picture.line(picture.x(0), picture.y(own), picture.x(1), picture.y(own), "#555555", 1, "4 3")
    picture.text(picture.x(1) + 6, picture.y(own) + 4, "own taps")
    picture.line(picture.x(0), picture.y(guessing), picture.x(1), picture.y(guessing), "#555555", 1, "4 3")
    picture.text(picture.x(1) + 6, picture.y(guessing) + 4, "guessing")
    picture.save(options.out)
    plain = {name: values[-1] for name, values in curves.items()}
    print("loss with x = 1: " + ", ".join(f"{name} {value:.2f}" for name, value in plain.items()) + f"; own {own:.2f}")


if __name__ == "__main__":
    main()
