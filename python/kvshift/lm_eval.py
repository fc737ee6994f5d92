"""Models of kvshift in lm-evaluation-harness, as ``--model kvshift``.

The harness finds models that were imported, so either import this module, or start the harness with
it; all options are those of ``lm_eval``::

    python -m kvshift.lm_eval run --model kvshift --model_args pretrained=runs/book --tasks lambada_openai

Arguments of the model: ``pretrained`` (a path), ``tokenizer``, ``threads``, ``exact``, ``precision``,
``mapped``, ``max_length`` and ``max_gen_toks``.
"""
from __future__ import annotations

from typing import Any

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from .model import Model
from .runtime import Runtime


def _flag(value: Any) -> bool:
    """The harness passes what it can read as a Python value, and other words as text."""
    return value.lower() in ("true", "yes", "1") if isinstance(value, str) else bool(value)


@register_model("kvshift")
class KVShiftLM(TemplateLM):  # type: ignore[misc]
    """A model of kvshift.  ``batch_size`` sequences share a pass."""

    def __init__(self, pretrained: str | Model, tokenizer: str | None = None, batch_size: int | str = 1,
                 threads: int = 0, exact: bool | str = False, precision: str | None = None,
                 mapped: bool | str = True, max_length: int | None = None, max_gen_toks: int = 256,
                 device: str | None = None, max_batch_size: int | None = None) -> None:
        super().__init__()
        if isinstance(pretrained, Model):
            self.model = pretrained
        else:
            runtime = Runtime(threads=int(threads), exact=_flag(exact), precision=precision)
            self.model = Model.load(pretrained, tokenizer, runtime, mapped=_flag(mapped))
        if self.model.tokenizer is None:
            raise ValueError(f"'{pretrained}' has no tokenizer: name one with tokenizer=PATH")
        if device not in (None, "cpu"):
            raise ValueError(f"device is '{device}', expected 'cpu'")
        self.text = self.model.tokenizer
        self.batch = 1 if str(batch_size).startswith("auto") else int(batch_size)
        self.length = min(int(max_length), self.model.context) if max_length else self.model.context
        self.max_gen_toks = int(max_gen_toks)

    # ---- what the harness asks for ----

    @property
    def eot_token_id(self) -> int:
        ends = [self.text.eos, *self.model.eos]
        found = next((id for id in ends if id is not None), None)
        if found is None:
            raise ValueError("the model has no token that ends a text")
        return found

    @property
    def prefix_token_id(self) -> int:
        return self.eot_token_id if self.text.bos is None else self.text.bos

    @property
    def max_length(self) -> int:
        return self.length

    @property
    def tokenizer_name(self) -> str:
        return f"kvshift-{self.text.hash:016x}"

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        return self.text.encode(string, special=add_special_tokens is not False)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        return self.text.encode_pair(context, continuation)

    def tok_decode(self, tokens: list[int], **_: Any) -> str:
        return self.text.decode(tokens)

    # ---- requests ----

    def _loglikelihood_tokens(self, requests: list[tuple[Any, list[int], list[int]]], disable_tqdm: bool = False,
                              **_: Any) -> list[tuple[float, bool]]:
        pairs = []
        for _texts, context, continuation in requests:
            if len(continuation) > self.length:
                raise ValueError(f"the continuation has {len(continuation)} tokens, expected at most {self.length}")
            # The last token is not fed, so one more than the context fits.
            pairs.append((context[max(0, len(context) + len(continuation) - self.length - 1):], continuation))
        found: list[tuple[float, bool]] = []
        for first in range(0, len(pairs), self.batch):
            part = pairs[first:first + self.batch]
            found += self.model.loglikelihood(part, batch=self.batch)
            for (texts, *_rest), answer in zip(requests[first:], found[first:]):
                self.cache_hook.add_partial("loglikelihood", texts, answer)
        return found

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        return self.model.loglikelihood_rolling([self.tok_encode(request.args[0]) for request in requests],
                                                batch=self.batch, window=self.length)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        found = []
        for request in requests:
            context, how = request.args
            until = how.get("until") or []
            stops = [until] if isinstance(until, str) else list(until)
            tokens = int(how.get("max_gen_toks", self.max_gen_toks))
            ids = self.tok_encode(context)[-max(1, self.length - tokens):] or [self.prefix_token_id]
            temperature = float(how.get("temperature", 0)) if how.get("do_sample") else 0.0
            # A model may also spell the text of the token that ends a text.
            stops = [stop for stop in [*stops, self.tok_decode([self.eot_token_id])] if stop]
            made = self.model.generate(ids, tokens, stop=stops, temperature=temperature,
                                       top_p=float(how.get("top_p", 1)), top_k=int(how.get("top_k", 0)))
            # The harness decodes the new tokens alone, which can lack a space at the start.
            text = self.tok_decode(made.ids)
            for stop in stops:
                text = text.split(stop)[0]
            self.cache_hook.add_partial("generate_until", request.args, text)
            found.append(text)
        return found


if __name__ == "__main__":
    import kvshift.lm_eval  # registers the model under the module's own name  # noqa: F401
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
