"""The numbers of the package are those of the command, to the bit."""
import ctypes
import math
import unittest

import numpy as np

import kvshift
from common import Case, command, ids, listed, model, printed
from kvshift import _library
from kvshift.tokenizer import address, ids_address


class Numbers(Case):
    def test_scores(self):
        """Short and long continuations: one pass, and several."""
        m, folder = model(), self.folder()
        m.save(folder)
        loaded = kvshift.Model.load(folder)
        for context, continuation in ((1, 1), (7, 20), (300, 290), (599, 1), (1, 599)):
            first, second = ids(context, seed=context), ids(continuation, seed=2)
            [line] = command("score", "-m", folder, "--ids", listed(first), "--continuation-ids", listed(second))
            for one in (m, loaded):
                [(total, greedy)] = one.loglikelihood([(first, second)])
                [(logprobs, _)] = one._score([(np.array(first, np.int32), np.array(second, np.int32))], 1)
                self.assertEqual((printed([total]), greedy), ([line["sum"]], line["greedy"]))
                self.assertEqual(printed(logprobs), line["logprobs"])
                # What the command calls, with all digits.
                expected = np.empty(continuation)
                called, session = ctypes.c_double(), one.session()
                _library.call("kvs_score", ctypes.byref(called), None, address(expected, ctypes.c_double),
                              session._handle, ids_address(np.array(first + second, np.int32)),
                              context + continuation, context, 0)
                self.assertEqual(total, called.value)
                self.same_bits(logprobs, expected)

    def test_logits(self):
        """Token by token: the log-probabilities that the command computes from its logits."""
        m, folder = model(), self.folder()
        m.save(folder)
        text = ids(40)
        [line] = command("score", "-m", folder, "--ids", text[0], "--continuation-ids", listed(text[1:]),
                         "--step-by-step")
        session = m.session()
        for i, expected in enumerate(line["logprobs"]):
            row = session.feed(text[i:i + 1])
            largest = row.max()
            rough = float(row[text[i + 1]] - largest - np.log(np.exp((row - largest).astype(np.float64)).sum()))
            exact = _library.library.kvs_logits_logprob(address(row, ctypes.c_float), len(row), text[i + 1])
            self.assertEqual(printed([exact]), [expected])
            self.assertAlmostEqual(rough, expected, delta=1e-5)

    def test_generated_tokens(self):
        m, folder = model(), self.folder()
        m.save(folder)
        prompt = ids(12)
        for how, options in (({"temperature": 0}, ["--temp", "0"]),
                             ({"temperature": 1.1, "seed": 5, "top_k": 40, "top_p": 0.9, "min_p": 0.01,
                               "repeat_penalty": 1.3, "repeat_last": 8},
                              ["--temp", "1.1", "--seed", "5", "--top-k", "40", "--top-p", "0.9", "--min-p", "0.01",
                               "--repeat-penalty", "1.3", "--repeat-last", "8"]),
                             ({}, [])):
            [line] = command("generate", "-m", folder, "--ids", listed(prompt), "-n", "30", "--json", *options)
            found = m.generate(prompt, 30, logprobs=True, **how)
            self.assertEqual(found.ids, line["ids"])
            self.assertEqual(printed(found.logprobs), line["logprobs"])
            self.assertEqual(found.finish, line["finish"])
            streamed = list(m.generate(prompt, 30, stream=True, **how))
            self.assertEqual([token.id for token in streamed], line["ids"])
            self.assertEqual(streamed[-1].finish, "length")

    def test_any_division(self):
        """All logits at once, one by one, and in slices agree; in exact mode to the bit."""
        text = ids(580)
        for exact in (False, True):
            with kvshift.Runtime(exact=exact) as runtime:
                m = model(runtime=runtime)
                all_rows = m.logits(text)
                whole = m.session().feed(text)
                session, rest = m.session(), text
                for count in (1, 255, 300, 24):
                    last = session.feed(rest[:count])
                    rest = rest[count:]
                self.assertEqual(rest, [])
                for row in (whole, last):
                    if exact:
                        self.same_bits(row, all_rows[-1])
                    np.testing.assert_allclose(row, all_rows[-1], rtol=0, atol=1e-5 * np.abs(all_rows[-1]).max())

    def test_batches(self):
        requests = [(ids(1 + 13 * i, seed=i), ids(1 + i % 5, seed=100 + i)) for i in range(20)]
        with kvshift.Runtime(exact=True) as runtime:
            m = model(runtime=runtime)
            self.assertEqual(m.loglikelihood(requests, batch=6), m.loglikelihood(requests))
        m = model()
        one, many = np.array(m.loglikelihood(requests)), np.array(m.loglikelihood(requests, batch=6))
        np.testing.assert_allclose(one[:, 0], many[:, 0], rtol=1e-5)

    def test_threads_have_the_same_bits(self):
        rows = []
        for threads in (1, 2, 3):
            with kvshift.Runtime(threads=threads) as runtime:
                rows.append(model(runtime=runtime).logits(ids(100)))
        self.same_bits(rows[0], rows[1])
        self.same_bits(rows[0], rows[2])

    def test_rolling(self):
        """Windows, against the definition in lm-evaluation-harness: every token is predicted once, the
        first from BOS or EOS, windows have at most `context` inputs."""
        folder = self.folder()
        (folder / "t.txt").write_text("one two three four five " * 20)
        tokenizer = kvshift.Tokenizer.train([folder / "t.txt"], vocab=300, special=["<|endoftext|>"])
        m = model(vocab=300, context=16)
        m.tokenizer = tokenizer
        start = tokenizer.eos if tokenizer.bos is None else tokenizer.bos
        for count in (1, 15, 16, 17, 32, 40):
            text = ids(count, vocab=300)
            expected, done = 0.0, 0
            while done < count:
                new = min(16, count - done)
                end = done + new
                window = ([start] + text)[max(0, end - 16):end + 1] if done else [start] + text[:end]
                expected += m.loglikelihood([(window[:-new], window[-new:])])[0][0]
                done = end
            self.assertAlmostEqual(m.loglikelihood_rolling([text])[0], expected, delta=1e-9 * abs(expected))
        self.assertEqual(m.loglikelihood_rolling([[]]), [0.0])

    def test_token_logprobs(self):
        m, text = model(), ids(30)
        found = m.token_logprobs(text)
        self.assertTrue(math.isnan(found[0]))
        self.assertAlmostEqual(float(found[1:].sum()), m.loglikelihood([(text[:1], text[1:])])[0][0], places=9)


class Inside(Case):
    def test_shift(self):
        """The keys are the raw ones mixed with the taps."""
        m, text = model(), ids(20)
        _, cache = m.run_with_cache(text, names=["blocks.1.attn.hook_k_raw", "blocks.1.attn.hook_k"])
        raw, shifted = cache["blocks.1.attn.hook_k_raw"], cache["blocks.1.attn.hook_k"]
        taps = m.taps()["k"][1]
        before = np.concatenate([np.zeros_like(raw[:1]), raw[:-1]])
        expected = taps[None, :, 1, None] * raw + taps[None, :, 0, None] * before
        np.testing.assert_allclose(shifted, expected, rtol=0, atol=1e-6)

    def test_names(self):
        m = model()
        _, everything = m.run_with_cache(ids(5))
        _, some = m.run_with_cache(ids(5), names="blocks.*.hook_resid_post")
        self.assertEqual(sorted(some), ["blocks.0.hook_resid_post", "blocks.1.hook_resid_post"])
        for name, values in some.items():
            self.same_bits(values, everything[name])
        with self.assertRaisesRegex(kvshift.InvalidError, "hook_resid_pos"):
            m.run_with_cache(ids(5), names="blocks.*.hook_resid_pos")

    def test_other_taps(self):
        """In sessions, in scores and in activations; the same as a model whose tensor has them."""
        m, text = model(), ids(20)
        changed = model()
        name = "model.layers.1.self_attn.v_shift"
        values = changed.tensor(name)
        values[2:4] = (0.25, -0.5)
        changed.set_tensor(name, values)
        before = m.loglikelihood([(text[:5], text[5:])])
        with m.taps({(1, "v", 1): (0.25, -0.5)}):
            self.same_bits(m.logits(text), changed.logits(text))
            self.same_bits(m.session().feed(text), changed.session().feed(text))
            self.assertEqual(m.loglikelihood([(text[:5], text[5:])]), changed.loglikelihood([(text[:5], text[5:])]))
            with m.taps({(1, "v", 1): (0, 1), (0, "k", 0): (1, 0)}):
                self.assertNotEqual(m.loglikelihood([(text[:5], text[5:])]), before)
            self.same_bits(m.logits(text), changed.logits(text))
        self.assertEqual(m.loglikelihood([(text[:5], text[5:])]), before)
        self.same_bits(m.tensor(name), model().tensor(name))
        for wrong, message in (((9, "k", 0), "layer 9"), ((0, "k", 2), "head 2"), ((0, "x", 0), "'x'"),
                               ((0, "q", 0), "no such target")):
            with self.assertRaisesRegex(ValueError, message), m.taps({wrong: (0, 1)}):
                self.fail()
        with self.assertRaisesRegex(ValueError, "expected 2 numbers"), m.taps({(0, "k", 0): (1, 2, 3)}):
            self.fail()

    def test_mapped_models_refuse_other_taps_in_activations(self):
        folder = self.folder()
        model().save(folder)
        m = kvshift.Model.load(folder)
        with m.taps({(1, "v", 1): (0, 1)}):
            m.session().feed([1, 2])
            with self.assertRaisesRegex(kvshift.UnsupportedError, "mapped=False"):
                m.logits([1, 2])

    def test_taps_of_layers_with_other_heads(self):
        m = model(**{"shift": "kv", "sliding-window": 8, "sliding-layers": "0", "sliding-heads": 4,
                     "sliding-kv-heads": 1})
        taps = m.taps()["k"]
        self.assertEqual(taps.shape, (2, 2, 2))
        self.assertTrue(np.isnan(taps[0, 1]).all() and not np.isnan(taps[1]).any())


class Sessions(Case):
    def test_fork_rewind_save(self):
        m, text, folder = model(), ids(200), self.folder()
        session = m.session()
        session.feed(text[:150])
        other = session.fork()
        self.same_bits(session.feed(text[150:]), other.feed(text[150:]))
        other.rewind(100)
        self.assertEqual(other.ids, text[:100])
        np.testing.assert_allclose(other.feed(text[100:]), session.logits(), atol=1e-5)
        part = session.fork(30)
        self.assertEqual(part.ids, text[:30])
        session.save(folder / "s")
        loaded = kvshift.Session.load(m, folder / "s")
        self.assertEqual(loaded.ids, text)
        self.same_bits(loaded.feed([1]), session.feed([1]))
        session.reset()
        self.assertEqual((len(session), session.ids), (0, []))

    def test_a_bad_id_in_a_later_slice_changes_nothing(self):
        session = model().session()
        session.feed([5])
        with self.assertRaisesRegex(ValueError, "999"):
            session.feed(ids(300) + [999])
        self.assertEqual(session.ids, [5])
        with self.assertRaisesRegex(ValueError, "do not fit"):
            session.feed(ids(600))
        self.assertEqual(session.ids, [5])

    def test_generate_continues_a_session(self):
        m, prompt = model(), ids(10)
        whole = m.generate(prompt, 20, temperature=0).ids
        session = m.session()
        first = m.generate(prompt, 8, temperature=0, session=session).ids
        second = m.generate(first[-1:], 12, temperature=0, session=session).ids
        self.assertEqual(first + second, whole)

    def test_ends(self):
        m, prompt = model(), ids(10)
        greedy = m.generate(prompt, 5, temperature=0).ids
        m.eos = [greedy[2]]
        found = m.generate(prompt, 5, temperature=0)
        self.assertEqual((found.ids, found.finish), (greedy[:greedy.index(greedy[2])], "eos"))
        self.assertEqual(m.generate(prompt, 5, temperature=0, ignore_eos=True).ids, greedy)
        m.tokenizer = kvshift.Tokenizer("bytes")
        stop = m.tokenizer.decode_bytes(greedy[:1]).decode("latin1")
        if greedy[0] < 128:
            found = m.generate(prompt, 5, temperature=0, stop=[stop])
            self.assertEqual((found.text, found.finish), ("", "stop"))
        small = model(context=16)
        self.assertEqual(small.generate(prompt, None, temperature=0).finish, "full")


if __name__ == "__main__":
    unittest.main()
