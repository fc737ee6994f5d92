"""kvshift.torch, where torch and transformers are installed: a few numbers, and all examples.
script/oracles compares everything."""
import doctest
import importlib.util
import unittest

import numpy as np

import kvshift
from common import SHAPE, Case, ids
from test_documentation import Pages

HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
if HAS_TORCH:
    import torch
    from transformers import AutoModelForCausalLM

    import kvshift.torch


def load_tests(_loader, tests, _pattern):
    if HAS_TORCH:
        for module in (kvshift.torch, *(importlib.import_module(f"kvshift.torch.{name}")
                                        for name in ("shift", "retrofit"))):
            tests.addTests(doctest.DocTestSuite(module))
    return tests


@unittest.skipUnless(HAS_TORCH, "torch and transformers are not installed")
class Torch(Pages):
    def test_logits_and_gradients(self):
        for settings in ({}, {"shift": "qkv", "shift-form": "channel", "shift-window": 2}, {"body": "gpt2"}):
            shape = {key: value for key, value in SHAPE.items() if key != "kv-heads" or "body" not in settings}
            ours = kvshift.Model.create(seed=5, **{**shape, **settings})
            folder = self.folder()
            ours.save(folder)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
            row = ids(40)
            out = model(torch.tensor([row]), labels=torch.tensor([row]))
            out.loss.backward()
            expected = ours.logits(row)
            self.assertLess(np.abs(out.logits[0].detach().numpy() - expected).max(), 3e-6 * np.abs(expected).max())
            _, gradients = kvshift.Trainer(ours, batch=1, steps=1).gradients([row])
            largest = max(np.abs(gradient).max() for gradient in gradients.values())
            for name, gradient in gradients.items():
                found = model.get_parameter(name).grad.flatten().numpy()
                self.assertLess(np.abs(found - gradient).max(), 3e-6 * largest, name)

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_examples_of_the_page(self):
        self.run_programs("docs/pytorch.md", 6)


if __name__ == "__main__":
    unittest.main()
