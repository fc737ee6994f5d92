"""The examples in docstrings and in docs/python.md run."""
import contextlib
import doctest
import importlib
import io
import os
import pathlib
import pkgutil
import re
import unittest

import kvshift
from common import Case

NOT_IMPORTED = ("kvshift.__main__", "kvshift.lm_eval")  # a program; needs another package


def load_tests(_loader, tests, _pattern):
    names = ["kvshift", *(f"kvshift.{m.name}" for m in pkgutil.iter_modules(kvshift.__path__))]
    for name in names:
        if name not in NOT_IMPORTED:
            tests.addTests(doctest.DocTestSuite(importlib.import_module(name)))
    return tests


class Documents(Case):
    def root(self):
        root = os.environ.get("KVSHIFT_ROOT")
        if not root:
            self.skipTest("KVSHIFT_ROOT does not name the project's folder")
        return pathlib.Path(root)

    def test_every_public_name_is_documented(self):
        text = (self.root() / "docs" / "python.md").read_text(encoding="utf-8")
        self.assertEqual([name for name in kvshift.__all__ if not re.search(rf"\b{name}\b", text)], [])
        for name in kvshift.__all__:
            self.assertTrue(callable(getattr(kvshift, name)) is False or getattr(kvshift, name).__doc__, name)

    def test_examples_of_the_page(self):
        """The programs of docs/python.md, one after the other in one namespace and an empty folder."""
        text = (self.root() / "docs" / "python.md").read_text(encoding="utf-8")
        programs = re.findall(r"^```python\n(.*?)^```", text, flags=re.M | re.S)
        self.assertGreater(len(programs), 5)
        before = os.getcwd()
        os.chdir(self.folder())
        self.addCleanup(os.chdir, before)
        names = {}
        for program in programs:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(program, "docs/python.md", "exec"), names)


if __name__ == "__main__":
    unittest.main()
