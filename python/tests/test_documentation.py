"""The examples in docstrings and in docs/python.md run."""
import contextlib
import doctest
import importlib
import io
import os
import pathlib
import pkgutil
import re
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import kvshift
from common import Case

# A program; needs another package; has tests of its own.
NOT_IMPORTED = ("kvshift.__main__", "kvshift.lm_eval", "kvshift.torch")


def load_tests(_loader, tests, _pattern):
    names = ["kvshift", *(f"kvshift.{m.name}" for m in pkgutil.iter_modules(kvshift.__path__))]
    for name in names:
        if name not in NOT_IMPORTED:
            tests.addTests(doctest.DocTestSuite(importlib.import_module(name)))
    return tests


class Pages(Case):
    def root(self):
        root = os.environ.get("KVSHIFT_ROOT")
        if not root:
            self.skipTest("KVSHIFT_ROOT does not name the project's folder")
        return pathlib.Path(root)

    def run_programs(self, path, least):
        """Runs the programs of a page, one after the other in one namespace and an empty folder."""
        text = (self.root() / path).read_text(encoding="utf-8")
        programs = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
        self.assertGreaterEqual(len(programs), least)
        before = os.getcwd()
        os.chdir(self.folder())
        self.addCleanup(os.chdir, before)
        names = {}
        for program in programs:
            with contextlib.redirect_stdout(io.StringIO()):
                if path == "README.md":
                    self.make_book()
                exec(compile(program, path, "exec"), names)

    def make_book(self):
        """The run that the README has trained before."""
        pathlib.Path("book.txt").write_text("It was a dark and stormy night. " * 20)
        m = kvshift.Model.create(vocab=300, dim=16, layers=1, context=128, shift="kv")
        m.tokenizer = kvshift.Tokenizer.train(["book.txt"], vocab=300, special=["<|endoftext|>"])
        kvshift.train(m, [[1, 2, 3]], "runs/book", steps=1, batch=1)


class Documents(Pages):
    def test_every_public_name_is_documented(self):
        text = (self.root() / "docs" / "python.md").read_text(encoding="utf-8")
        self.assertEqual([name for name in kvshift.__all__ if not re.search(rf"\b{name}\b", text)], [])
        for name in kvshift.__all__:
            self.assertTrue(callable(getattr(kvshift, name)) is False or getattr(kvshift, name).__doc__, name)

    def test_examples_of_the_page(self):
        self.run_programs("docs/python.md", 7)

    def test_example_of_the_readme(self):
        self.run_programs("README.md", 1)

    def test_scripts(self):
        """Those of examples/python write pictures."""
        for name in ("induction_heads", "change_taps"):
            picture = self.folder() / "picture.svg"
            script = self.root() / "examples" / "python" / f"{name}.py"
            subprocess.run([sys.executable, script, "--steps", "20", "--out", picture], check=True,
                           stdout=subprocess.DEVNULL)
            root = xml.etree.ElementTree.parse(picture).getroot()
            self.assertGreater(len(list(root)), 20)


if __name__ == "__main__":
    unittest.main()
