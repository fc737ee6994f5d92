"""Tokenizers, corpora, training, run folders, conversion."""
import json
import math
import unittest

import numpy as np

import kvshift
from common import Case, command, ids, model


class Training(Case):
    sequences = [[(s + i) % 12 for i in range(16)] for s in range(64)]
    how = {"steps": 30, "warmup": 5, "batch": 16, "lr": 5e-3}

    def model(self):
        return kvshift.Model.create(vocab=12, dim=32, layers=1, context=16, shift="kv")

    def weights(self, m):
        return {name: m.tensor(name).tobytes() for name in m.tensors()}

    def test_arrays_lists_batches_and_functions_are_the_same(self):
        found = []
        for data in (self.sequences, np.array(self.sequences), kvshift.Batch(self.sequences), kvshift.Data(self.sequences)):
            m = self.model()
            losses = [step.loss for step in kvshift.Trainer(m, data, **self.how)]
            found.append((losses, self.weights(m)))
        self.assertTrue(all(one == found[0] for one in found))
        self.assertLess(found[0][0][-1], 0.7 * found[0][0][0])

    def test_targets_and_masks(self):
        """A loss only where it is wanted: gradients of a batch with a mask are those of the targets."""
        m = self.model()
        trainer = kvshift.Trainer(m, **self.how)
        rows = self.sequences[:4]
        mask = [[i % 2 for i in range(16)] for _ in rows]
        targets = [[row[i + 1] if i < 15 and i % 2 else -1 for i in range(16)] for row in rows]
        first, second = trainer.gradients(rows, mask=mask), trainer.gradients(rows, targets=targets)
        self.assertEqual(first[0], second[0])
        for name in first[1]:
            self.same_bits(first[1][name], second[1][name])
        every = trainer.gradients(rows)
        self.assertNotEqual(every[0], first[0])

    def test_gradients(self):
        """Against a difference of losses, along the gradient."""
        m = self.model()
        trainer = kvshift.Trainer(m, **self.how)
        rows = self.sequences[:8]
        loss, gradients = trainer.gradients(rows)
        self.assertEqual(set(gradients), set(m.tensors()))
        squares = sum(float((g.astype(np.float64) ** 2).sum()) for g in gradients.values())
        before, eps, losses = {name: m.tensor(name) for name in gradients}, 2e-3, []
        for sign in (1, -1):
            for name, g in gradients.items():
                m.set_tensor(name, before[name] + sign * eps * g)
            losses.append(trainer.gradients(rows)[0])
        self.assertAlmostEqual((losses[0] - losses[1]) / (2 * eps), squares, delta=2e-2 * squares)
        self.assertTrue(math.isfinite(loss))

    def test_functions(self):
        def sequence(seed, stream, index):
            row = np.array([(seed + index + i) % 12 for i in range(10)])
            return (row, np.append(row[1:], -1)) if index % 2 else row

        data = kvshift.Data.from_function(sequence, vocab=12, max_length=10)
        steps = list(kvshift.Trainer(self.model(), data, **self.how))
        self.assertLess(steps[-1].loss, steps[0].loss)
        self.assertEqual(data.sequence(3, seed=2)[0].tolist(), [(5 + i) % 12 for i in range(10)])

        def broken(seed, stream, index):
            raise KeyError("mine")

        data = kvshift.Data.from_function(broken, vocab=12, max_length=10)
        for call in (lambda: kvshift.Trainer(self.model(), data, **self.how).step(), lambda: data.sequence(0),
                     lambda: kvshift.train(self.model(), data, steps=2, batch=2)):
            with self.assertRaisesRegex(KeyError, "mine"):
                call()

    def test_checkpoints(self):
        """Ten steps, a checkpoint and ten steps have the bits of twenty steps."""
        whole, folder = self.model(), self.folder()
        for _, _ in zip(range(20), trainer := kvshift.Trainer(whole, self.sequences, **self.how)):
            pass
        self.assertEqual(trainer.steps, 20)
        first = kvshift.Trainer(self.model(), self.sequences, **self.how)
        self.assertIsNone(first.load(folder / "none"))
        for _ in range(10):
            first.step()
        first.save(folder)
        m = self.model()
        second = kvshift.Trainer(m, self.sequences, **self.how)
        self.assertEqual(second.load(folder), 10)
        for _ in range(10):
            second.step()
        self.assertEqual(self.weights(m), self.weights(whole))

    def test_runs(self):
        folder = self.folder() / "run"
        m, seen = self.model(), []
        result = kvshift.train(m, kvshift.Data(self.sequences, valid=self.sequences[:8]), folder, progress=seen.append,
                               **{**self.how, "eval-every": 10})
        run = kvshift.read_run(folder)
        self.assertEqual((result.steps, len(seen), len(run.steps["loss"])), (30, 30, 30))
        np.testing.assert_allclose(run.steps["loss"], [step.loss for step in seen], rtol=1e-5)
        self.assertEqual(np.flatnonzero(~np.isnan(run.steps["eval_loss"])).tolist(), [9, 19, 29])
        self.assertEqual(run.settings["model"]["hidden_size"], 32)
        self.assertAlmostEqual(run.result["final_loss"], result.final.loss, places=5)
        loaded = kvshift.Model.load(folder)
        self.same_bits(loaded.logits([1, 2, 3]), m.logits([1, 2, 3]))
        log = folder / "train.jsonl"
        complete = log.read_text()
        log.write_text(complete + '{"step": 31, "lo')
        self.assertEqual(len(kvshift.read_run(folder).steps["loss"]), 30)
        for damaged, message in (("", "first line"), ("[1]\n", "line 1: expected an object"),
                                 ("{\n", "line 1 is not JSON"), ("[" * 100000 + "\n", "line 1 is not JSON")):
            log.write_text(damaged)
            with self.assertRaisesRegex(ValueError, message):
                kvshift.read_run(folder)

    def test_progress_that_raises(self):
        def progress(step):
            if step.step == 4:
                raise KeyError("mine")

        folder = self.folder() / "run"
        with self.assertRaisesRegex(KeyError, "mine"):
            kvshift.train(self.model(), self.sequences, folder, progress=progress, **self.how)
        self.assertEqual(len(kvshift.read_run(folder).steps["loss"]), 4)
        resumed = self.model()
        kvshift.train(resumed, self.sequences, folder, resume=True, **self.how)
        whole = self.model()
        kvshift.train(whole, self.sequences, **self.how)
        self.assertEqual(self.weights(resumed), self.weights(whole))

    def test_retrofit(self):
        plain = kvshift.Model.create(vocab=12, dim=32, layers=1, context=16)
        self.same_bits(plain.retrofit("kv").logits([1, 2, 3]), plain.logits([1, 2, 3]))
        self.assertEqual(plain.taps(), {})


class Texts(Case):
    def corpus(self):
        folder = self.folder()
        texts = [f"Document {i} says {i * i}." for i in range(40)]
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        seen = []
        corpus = kvshift.Corpus.build(folder / "corpus", [folder / "texts.jsonl"], "bytes", valid=0.25,
                                      progress=lambda done, all: seen.append((done, all)))
        self.assertTrue(all(done <= all for done, all in seen))
        return folder, texts, corpus

    def test_corpora(self):
        folder, texts, corpus = self.corpus()
        tokenizer = corpus.tokenizer()
        found = [tokenizer.decode(d) for split in ("train", "valid") for d in corpus.documents(split)]
        self.assertEqual(sorted(found), sorted(texts))
        everything = corpus.read("train")
        self.assertEqual(len(everything), corpus.split("train").tokens)
        self.same_bits(everything, np.concatenate(list(corpus.documents("train"))))
        self.same_bits(corpus.read("train", 5, 7), everything[5:12])
        corpus.check()
        again = kvshift.read_corpus(folder / "corpus")
        m = kvshift.Model.create(vocab=again.vocab, dim=16, layers=1, context=32, shift="kv")
        steps = list(kvshift.Trainer(m, again.data(32), steps=3, batch=4))
        self.assertEqual(len(steps), 3)
        with self.assertRaisesRegex(IndexError, "no document 99"):
            corpus.document(99)
        with self.assertRaises(kvshift.ExistsError):
            kvshift.Corpus.build(folder / "corpus", [folder / "texts.jsonl"], "bytes")
        with self.assertRaises(kvshift.FileError):
            kvshift.read_corpus(folder / "none")

    def test_tokenizers(self):
        folder, texts, _ = self.corpus()
        merges = []
        trained = kvshift.Tokenizer.train([folder / "texts.jsonl"], vocab=270, special=["<|endoftext|>"],
                                          progress=lambda done, wanted: merges.append(done))
        self.assertEqual(len(trained), 270)
        for text in [*texts, "né 漢字 🙂", ""]:
            self.assertEqual(trained.decode(trained.encode(text)), text)
        self.assertIsNotNone(trained.find("<|endoftext|>"))
        self.assertIsNone(trained.find("no such token"))
        trained.save(folder / "tokenizer.json")
        again = kvshift.Tokenizer(folder / "tokenizer.json")
        self.assertEqual(again.encode(texts[3]), trained.encode(texts[3]))
        self.assertEqual(again.encode_pair("Document 1 ", "says"), (again.encode("Document 1"), again.encode(" says")))
        with self.assertRaises(KeyError):
            kvshift.Tokenizer.train([folder / "texts.jsonl"], vocab=270, progress=lambda *_: {}["mine"])
        with self.assertRaisesRegex(ValueError, "999"):
            trained.decode([999])

    def test_models_with_their_tokenizer(self):
        folder, texts, _ = self.corpus()
        m = model(vocab=270)
        m.tokenizer = kvshift.Tokenizer.train([folder / "texts.jsonl"], vocab=270, special=["<|endoftext|>"])
        m.save(folder / "m")
        loaded = kvshift.Model.load(folder / "m")
        [line] = command("score", "-m", folder / "m", "--context", "Document 1", "--continuation", " says 1.")
        [(total, _)] = loaded.loglikelihood([("Document 1", " says 1.")])
        self.assertEqual(float(f"{total:.15g}"), line["sum"])
        [line] = command("generate", "-m", folder / "m", "-p", "Document", "-n", "20", "--json", "--stop", "says")
        found = loaded.generate("Document", 20, stop=["says"])
        self.assertEqual((found.ids, found.finish), (line["ids"], line["finish"]))
        # Bytes that are not UTF-8 are replaced differently.
        self.assertEqual(found.text.replace("\ufffd", ""), line["text"].replace("\ufffd", ""))

    def test_conversion(self):
        folder = self.folder()
        m = model()
        m.save(folder / "m")
        self.assertIsInstance(kvshift.convert(folder / "m", folder / "m.gguf", dtype="q8_0"), list)
        info = kvshift.describe(folder / "m.gguf")
        self.assertEqual((info.format, info.dtype), ("GGUF", "Q8_0"))
        loaded = kvshift.Model.load(folder / "m.gguf")
        np.testing.assert_allclose(loaded.logits(ids(9)), m.logits(ids(9)), atol=0.1)
        with self.assertRaises(kvshift.ExistsError):
            kvshift.convert(folder / "m", folder / "m.gguf")
        with self.assertRaises(kvshift.FormatError):
            (folder / "bad.gguf").write_bytes((folder / "m.gguf").read_bytes()[:5000])
            kvshift.Model.load(folder / "bad.gguf")

    def test_settings(self):
        config = kvshift.ModelConfig("desk-1m", shift="kv")
        config["shift-window"] = 2
        config.finish()
        self.assertEqual({name: config[name] for name in config}, dict(config))
        self.assertIn("desk-1m", kvshift.presets())
        self.assertTrue(all(s.help for s in {**kvshift.model_settings(), **kvshift.train_settings()}.values()))
        again = kvshift.ModelConfig(**{name: value for name, value in dict(config).items()})
        self.assertEqual(dict(again), dict(config))


if __name__ == "__main__":
    unittest.main()
