"""Memory, threads, processes, signals, and libraries that do not fit."""
import gc
import itertools
import os
import pathlib
import subprocess
import sys
import threading
import time
import types
import unittest

import numpy as np

import kvshift
from common import Case, ids, model
from kvshift import _abi, _library

START = """
import kvshift, os, sys
m = kvshift.Model.create(vocab=64, dim=64, layers=2, context=64, shift="kv", seed=3,
                         runtime=kvshift.Runtime(threads=3))
s = m.session()
before = s.feed(list(range(40)))
"""


class Lifetime(Case):
    def test_any_order(self):
        """Closing in every order, and closing twice."""
        for order in itertools.permutations(range(4)):
            runtime = kvshift.Runtime(threads=1)
            m = model(runtime=runtime)
            session = m.session()
            session.feed([1, 2])
            trainer = kvshift.Trainer(m, [[1, 2, 3]], steps=1, batch=1)
            handles = [runtime, m, session, trainer]
            for i in order:
                handles[i].close()
                handles[i].close()
            self.assertTrue(all(handle.closed for handle in handles))

    def test_references_only(self):
        for order in itertools.permutations(range(3)):
            runtime = kvshift.Runtime(threads=1)
            m = model(runtime=runtime)
            handles = [runtime, m, m.session()]
            del runtime, m
            for i in order:
                handles[i] = None
                gc.collect()

    def test_children_keep_their_parents(self):
        session = model(runtime=kvshift.Runtime(threads=1)).session()
        gc.collect()
        self.assertEqual(len(session.feed([1, 2, 3])), 256)

    def test_a_closed_handle_says_so(self):
        m = model()
        with m.session() as session:
            pass
        with self.assertRaisesRegex(ValueError, "the session is closed"):
            session.feed([1])
        m.close()
        with self.assertRaisesRegex(ValueError, "the model is closed"):
            m.logits([1])

    def test_failed_constructors_leave_nothing(self):
        with self.assertRaises(kvshift.Error):
            kvshift.Tokenizer("/no/such/file")
        with self.assertRaises(kvshift.InvalidError):
            kvshift.Runtime(threads=-1)
        gc.collect()

    def test_memory_comes_back(self):
        def resident():
            return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        with kvshift.Runtime(threads=1) as runtime:
            big = {"dim": 512, "layers": 4, "vocab": 4096}
            kvshift.Model.create(runtime=runtime, **{"context": 64, **big}).close()
            before = resident()
            for _ in range(4):
                kvshift.Model.create(runtime=runtime, **{"context": 64, **big}).session().feed([1])
                gc.collect()
            self.assertLess(resident() - before, 60e6)  # one model has 66 MB

    def test_arrays_of_data_live_as_long_as_the_data(self):
        trainer = kvshift.Trainer(model(), np.tile(np.arange(32), (8, 1)), steps=5, batch=4)
        gc.collect()
        junk = [np.full((8, 32), 255) for _ in range(50)]
        again = kvshift.Trainer(model(), np.tile(np.arange(32), (8, 1)), steps=5, batch=4)
        self.assertEqual(trainer.step().loss, again.step().loss)
        del junk


class Processes(Case):
    def test_exit_with_everything_open(self):
        self.assertEqual(self.python(START + "t = kvshift.Trainer(m, [[1, 2]], steps=1, batch=1); print(len(s))"), "40")

    def test_exit_in_a_thread(self):
        self.python(START + """
import threading, time
def run():
    session = m.session()
    while True:
        session.reset(); session.feed(list(range(60)))
threading.Thread(target=run, daemon=True).start()
time.sleep(0.3)
""")

    def test_fork(self):
        """The child of a fork computes with threads, and so do its own children; the parent goes on."""
        self.assertEqual(self.python(START + """
import warnings
warnings.simplefilter("ignore")  # Python 3.12 warns of every fork with threads
def child():
    s.reset()
    os._exit(0 if (s.feed(list(range(40))) == before).all() else 1)
def middle():
    inner = os.fork()
    if inner == 0:
        child()
    code = os.waitpid(inner, 0)[1]
    s.reset()
    os._exit(0 if code == 0 and (s.feed(list(range(40))) == before).all() else 1)
for run in (child, child, middle):
    pid = os.fork()
    if pid == 0:
        run()
    assert os.waitpid(pid, 0)[1] == 0
s.reset()
print((s.feed(list(range(40))) == before).all())
"""), "True")

    def test_multiprocessing(self):
        self.assertEqual(self.python("""
import multiprocessing, warnings
warnings.simplefilter("ignore")
import kvshift
m = kvshift.Model.create(vocab=64, dim=64, layers=2, context=64, shift="kv", runtime=kvshift.Runtime(threads=3))
m.logits([1, 2, 3])
def work(i):
    return float(m.logits([i, i + 1]).sum())
with multiprocessing.get_context("fork").Pool(3) as pool:
    found = pool.map(work, range(12))
print(found == [work(i) for i in range(12)])
"""), "True")

    def test_threads(self):
        """Threads with sessions of their own, and threads with one session."""
        m = model()
        expected = {i: m.session().feed(ids(50, seed=i)) for i in range(8)}
        wrong = []

        def own(i):
            session = m.session()
            for _ in range(5):
                session.reset()
                if session.feed(ids(50, seed=i)).tobytes() != expected[i].tobytes():
                    wrong.append(i)

        shared = m.session()

        def common(i):
            for _ in range(20):
                shared.feed([i])

        threads = [threading.Thread(target=target, args=(i,)) for i in range(8) for target in (own, common)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(shared)), ([], 160))

    def test_the_gil_is_released(self):
        """Another thread runs during a long call."""
        m = model(dim=256, context=600)
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.0005)

        thread = threading.Thread(target=tick)
        session, text = m.session(), np.array(ids(250), dtype=np.int32)
        thread.start()
        start = time.monotonic()
        _library.call("kvs_session_feed", session._handle, kvshift.tokenizer.ids_address(text), len(text), None)
        end = time.monotonic()
        done.set()
        thread.join()
        self.assertTrue(any(start < t < end for t in ticks))

    def interrupt(self, program):
        """Runs a program that would take minutes; SIGINT arrives once it has printed a line."""
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(2)
        out, err = process.communicate(timeout=60)
        self.assertIn("KeyboardInterrupt", err)
        return out

    def test_interrupts(self):
        setup = ("import kvshift\nm = kvshift.Model.create(vocab=256, dim=64, layers=2, context=100000, shift='kv')\n"
                 "print('started', flush=True)\n")
        self.interrupt(setup + "m.session().feed([1] * 100000)")
        self.interrupt(setup + "m.generate([1], 90000, ignore_eos=True)")
        self.interrupt(setup + "m.loglikelihood([([1] * 500, [2] * 500)] * 10000)")
        self.interrupt(setup + "m.loglikelihood([([1] * 500, [2] * 5000)] * 2000, batch=4)")
        self.interrupt(setup + "for step in kvshift.Trainer(m, [[1] * 64], steps=10**6, batch=8): pass")

    def test_an_interrupted_run_can_be_resumed(self):
        folder = self.folder() / "run"
        program = f"""
import kvshift
m = kvshift.Model.create(vocab=64, dim=32, layers=1, context=64, shift='kv')
kvshift.train(m, [[i % 64 for i in range(64)]] * 8, {str(folder)!r}, steps=1000000, batch=8, lr=1e-3,
              progress=lambda step: step.step == 3 and print('started', flush=True))
"""
        self.interrupt(program)
        done = len(kvshift.read_run(folder).steps["loss"])
        self.assertGreater(done, 2)
        self.assertTrue(list((folder / "ckpt").glob("step-*")))
        with self.assertRaises(kvshift.ExistsError):
            kvshift.train(model(), [[1, 2]], folder, steps=1, batch=1)


class Library(Case):
    def test_another_layout(self):
        class changed(_abi.kvs_feed):
            _fields_ = [("more", _abi.c_int)]

        other = types.SimpleNamespace(**{**vars(_abi), "STRUCTS": (*_abi.STRUCTS[:-1], changed)})
        self.assertNotEqual(_library.layout_hash(other), _library.layout_hash())
        constant = types.SimpleNamespace(**{**vars(_abi), "KVS_SHIFT_V": 3})
        self.assertNotEqual(_library.layout_hash(constant), _library.layout_hash())
        original = _library.layout_hash
        _library.layout_hash = lambda: 1
        self.addCleanup(setattr, _library, "layout_hash", original)
        with self.assertRaisesRegex(ImportError, "has version .* another binary layout .* of version"):
            _library._load(_library.path)

    def test_no_library(self):
        for path, message in (("/no/such/library.so", "cannot load the library '/no/such/library.so'"),
                              ("libm.so.6", "is not a library of kvshift")):
            program = f"""
try:
    import kvshift
except ImportError as error:
    print({message!r} in str(error))
"""
            self.assertEqual(self.python(program, KVSHIFT_LIBRARY=path), "True")

    def test_every_function_has_types(self):
        for name in _abi.FUNCTIONS:
            self.assertIsNotNone(getattr(_library.library, name).argtypes, name)
        with self.assertRaises(_library.ctypes.ArgumentError):
            _library.library.kvs_session_length(model()._handle)

    def test_the_environment_is_left_alone(self):
        self.assertEqual(self.python("""
import os
before = dict(os.environ)
import kvshift
print(dict(os.environ) == before)
"""), "True")

    def test_bad_arguments(self):
        m = model()
        for call, message in ((lambda: m.logits([[1, 2]]), "2 dimensions"),
                              (lambda: m.logits([0.5]), "float64"),
                              (lambda: m.logits([2**40]), "32 bits"),
                              (lambda: m.logits([256]), "256"),
                              (lambda: m.logits("text"), "tokenizer"),
                              (lambda: m.loglikelihood([("a", [1])]), "a text and ids"),
                              (lambda: m.loglikelihood([([], [1])]), "request 0"),
                              (lambda: m.loglikelihood([([1], [256])]), "id 256"),
                              (lambda: m.loglikelihood([([1] * 600, [1, 1])]), "602"),
                              (lambda: m.generate([1], 5, temperature=-1), "temperature"),
                              (lambda: m.generate([1], 0), "max_tokens is 0"),
                              (lambda: m.session(cache="f8"), "cache is 'f8'"),
                              (lambda: kvshift.Model.create(vocab=8, shfit="kv"), "did you mean 'shift'"),
                              (lambda: kvshift.Trainer(m, [[1, 2]], stesp=5), "did you mean 'steps'"),
                              (lambda: kvshift.Batch([[1, 2]], targets=[[1]]), "lengths of the sequences")):
            with self.assertRaisesRegex(ValueError, message):
                call()
        with self.assertRaises(FileNotFoundError):
            kvshift.read_run(self.folder())
        self.assertTrue(issubclass(kvshift.LimitError, ValueError) and issubclass(kvshift.FileError, OSError))


if __name__ == "__main__":
    unittest.main()
