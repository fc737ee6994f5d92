"""Shared by the tests of the Python package."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import kvshift

COMMAND = os.environ.get("KVSHIFT") or str(pathlib.Path(kvshift.__file__).parent / "bin" / "kvshift")
SHAPE = {"vocab": 256, "dim": 32, "layers": 2, "heads": 4, "kv-heads": 2, "context": 600, "shift": "kv"}


def model(seed=3, runtime=None, **settings):
    return kvshift.Model.create(seed=seed, runtime=runtime, **{**SHAPE, **settings})


def ids(count, vocab=256, seed=1):
    return np.random.default_rng(seed).integers(0, vocab, count).tolist()


def command(*arguments, text=None):
    """Runs the command; returns the JSON objects that it prints, one per line."""
    done = subprocess.run([COMMAND, *map(str, arguments)], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"kvshift {arguments[0]}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def printed(numbers):
    """Numbers as the command prints them: with 15 digits."""
    return [float(f"{number:.15g}") for number in numbers]


def listed(numbers):
    return ",".join(map(str, numbers))


class Case(unittest.TestCase):
    def folder(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        return pathlib.Path(place.name)

    def same_bits(self, first, second):
        first, second = np.asarray(first), np.asarray(second)
        self.assertEqual(first.shape, second.shape)
        self.assertEqual(first.tobytes(), second.tobytes())

    def python(self, program, timeout=60, **environment):
        """Runs a program in a process of its own; returns what it prints.  Fails if it crashes, hangs
        or prints on standard error."""
        done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", "-c", program], capture_output=True,
                              text=True, timeout=timeout, check=False, env={**os.environ, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""), program)
        return done.stdout.strip()
