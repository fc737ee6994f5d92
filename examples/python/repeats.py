"""The task of both examples: random tokens, and then the same tokens again.

The number of tokens differs from sequence to sequence, so the second half can be predicted by
induction only: find the earlier occurrence of the token and copy what followed it.  Only the second
half has a loss.
"""
import numpy as np

import kvshift

VOCAB, SHORTEST, LONGEST = 32, 6, 16  # tokens of one half


def batch(sequences, seed):
    """Sequences of ids, and their targets, -1 in the first half."""
    numbers = np.random.default_rng(seed)
    ids, targets = [], []
    for _ in range(sequences):
        half = numbers.permutation(VOCAB)[:numbers.integers(SHORTEST, LONGEST + 1)]  # no token twice
        ids.append(np.concatenate([half, half]))
        targets.append(np.concatenate([np.full(len(half), -1), half[1:], [-1]]))
    return ids, targets


def trained(name, steps, **settings):
    """A model that was trained on the task; prints its loss."""
    model = kvshift.Model.create(vocab=VOCAB, dim=64, heads=4, context=2 * LONGEST, seed=1, **settings)
    trainer = kvshift.Trainer(model, steps=steps, warmup=steps // 20, batch=64, lr=3e-3)
    for step in range(steps):
        record = trainer.step_batch(*batch(64, seed=step))
        if step % (steps // 4) == 0 or step == steps - 1:
            print(f"{name}: step {step + 1}, loss {record.loss:.3f}")
    return model


def loss(model, ids):
    """The mean loss of the second half."""
    pairs = [(row[:len(row) // 2 + 1], row[len(row) // 2 + 1:]) for row in ids]
    totals = [total for total, _ in model.loglikelihood(pairs, batch=len(ids))]
    return -sum(totals) / sum(len(second) for _, second in pairs)
