"""Language models with KV shifting attention.

Each key and each value is mixed with the ones of the tokens before it, by a few learned
coefficients per head (taps).  This package runs, measures and trains such models with the C library
of the project, which comes with it.

>>> import kvshift
>>> model = kvshift.Model.create(vocab=64, dim=32, layers=2, context=64, shift="kv")
>>> logits, cache = model.run_with_cache([1, 2, 3], names="blocks.0.attn.hook_pattern")
>>> logits.shape
(3, 64)
"""
from ._library import (DivergedError, Error, ExistsError, FileError, FormatError, InvalidError, LimitError,
                       MemoryLimitError, StoppedError, UnsupportedError, library as _loaded, path as library_path)
from .corpus import Corpus, Split, read_corpus
from .data import Batch, Data
from .model import Generation, Model, ModelInfo, Token, activation_names, convert, describe
from .runs import Run, read_run
from .runtime import Runtime
from .session import Sampler, Session
from .settings import ModelConfig, Setting, TrainConfig, model_settings, presets, train_settings
from .tokenizer import Detokenizer, Tokenizer
from .training import Evaluation, Step, Trainer, TrainResult, train

__version__: str = _loaded.kvs_build().contents.version.decode()

__all__ = [
    "Batch", "Corpus", "Data", "Detokenizer", "DivergedError", "Error", "Evaluation", "ExistsError", "FileError",
    "FormatError", "Generation", "InvalidError", "LimitError", "MemoryLimitError", "Model", "ModelConfig",
    "ModelInfo", "Run", "Runtime", "Sampler", "Session", "Setting", "Split", "Step", "StoppedError", "Token",
    "Tokenizer", "TrainConfig", "TrainResult", "Trainer", "UnsupportedError", "activation_names", "convert",
    "describe", "library_path", "model_settings", "presets", "read_corpus", "read_run", "train", "train_settings",
]
