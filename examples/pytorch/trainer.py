"""A training step, as the C trainer makes it (src/train/trainer.c):

    the sequences of this rank         numbers step * batch + ... of the same shuffled windows
    each micro-batch                   forward, loss, backward
    gradients of the mean loss         over all targets of the batch, on all ranks
    the norm, clipping, AdamW          with the rate and the weight decay of each group
"""
import contextlib
import math
import re

import numpy as np
import torch
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM, logging
from transformers.initialization import no_init_weights

from configuration import Refused

logging.set_verbosity_error()  # GPT-2's defaults of special tokens, which do not matter here, would be warned of
IGNORED = -100  # a target without a loss
NOTHING = np.zeros(1, dtype=np.int32), np.full(1, -1, dtype=np.int32)  # a sequence without a target


class Diverged(Exception):
    """The loss or the norm of the gradients is not finite.  No weight has changed."""


def torch_model(config_json, attention):
    """The model of PyTorch for a config.json, which may be one of another family if it has no shift.  Its
    weights are not set yet."""
    try:
        config = type(AutoConfig.for_model(config_json["model_type"])).from_dict(config_json)
        config.use_cache = False
        with no_init_weights():
            model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=torch.float32)
    except (ValueError, KeyError, ImportError) as problem:  # a setting or an implementation that it does not have
        raise Refused(f"PyTorch cannot train this model: {str(problem).splitlines()[0]}") from None
    model.tie_weights()
    return model


# ---- the optimizer -------------------------------------------------------------------------------

def group_of(name, parameter):
    """The group of a weight in the C trainer: matrices decay, gains and biases do not, and the shift has a
    rate and a decay of its own."""
    if re.search(r"\.([qkv]_shift|filter)$", name):
        return "shift"
    return "gains" if parameter.ndim == 1 or name.endswith(".r_table") else "matrices"


def factors_of(rates, names):
    """What --rates multiplies the learning rate of each tensor by.  An entry NAME=X is for tensors with that
    name or end of a name, with * and ? as wildcards; the first entry that fits a tensor counts."""
    factors = {}
    for entry in rates.split(",") if rates else ():
        pattern, _, factor = entry.partition("=")
        wanted = re.compile(r"(.*\.)?" + re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".") + r"(\.weight)?")
        found = [name for name in names if pattern and wanted.fullmatch(name)]
        try:
            number = float(factor)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf:
            raise Refused(f"rates: expected NAME=FACTOR with a factor of at least 0, found '{entry}'")
        if not found:
            raise Refused(f"rates: no tensor is named '{pattern}'; names are like '{names[len(names) // 2]}' and may "
                          "have * and ? as wildcards")
        factors |= {name: number for name in found if name not in factors}
    return factors


def optimizer_of(model, training, device):
    """AdamW, with the weight decay that the C trainer gives each group."""
    decay = training["weight-decay"]
    others = decay if training["decay-all"] else 0.0
    decays = {"matrices": decay, "gains": others, "shift": training["shift-decay"] or others}
    factors = factors_of(training["rates"], [name for name, _ in model.named_parameters()])
    groups = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((group_of(name, parameter), factors.get(name, 1.0)), []).append(parameter)
    return torch.optim.AdamW([{"params": groups[key], "weight_decay": decays[key[0]], "name": key[0], "factor": key[1]}
                              for key in sorted(groups)],
                             lr=training["lr"], betas=(training["beta1"], training["beta2"]), eps=training["eps"],
                             fused=device.type == "cuda")


# ---- steps ---------------------------------------------------------------------------------------

def count_targets(rows):
    return sum(int((targets >= 0).sum()) for _, targets in rows)


class Trainer:
    """A model, its optimizer and its data on this rank.

    `settings` and `training` have the settings by name; `whole` is the library's model, which has the first
    weights, on rank 0; `arguments` are the options of PyTorch."""

    def __init__(self, config_json, data, settings, training, ranks, whole, arguments):
        self.data, self.settings, self.training, self.ranks = data, settings, training, ranks
        self.batch, self.seed, self.stage = settings["batch"], settings["seed"], settings["shard"]
        self.micro = max(1, self.batch // settings["accumulate"])
        self.shift_training = settings.training()
        self.shift_training["lr"] = settings["shift-lr"] or settings["lr"]
        self.step = 0
        self.model = torch_model(config_json, arguments.attention)
        if settings["only-shift"]:
            for name, parameter in self.model.named_parameters():
                parameter.requires_grad_(group_of(name, parameter) == "shift")
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise Refused("only the shift is to be trained, but the model has none that learns")
        factors = factors_of(training["rates"], [name for name, _ in self.model.named_parameters()])
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad_(parameter.requires_grad and factors.get(name, 1.0) > 0)
        if not any(parameter.requires_grad for parameter in self.model.parameters()):
            raise Refused("rates: every tensor is frozen, nothing is trained")
        if settings["recompute"]:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        base = self.model.base_model
        layers = base.h if hasattr(base, "h") else base.layers
        self.compiled = arguments.compile
        for layer in layers if self.compiled else ():
            layer.compile()
        ranks.shard(self.model, self.stage, arguments.replicas, layers)
        ranks.fill(self.model, whole)
        self.optimizer = optimizer_of(self.model, training, ranks.device)
        self.trained = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    # ---- passes ----

    def rows(self, stream, first, count):
        """Ids and targets of sequences of a stream, by number."""
        return [self.data.sequence(number, stream, self.seed)[:2] for number in range(first, first + count)]

    def parts(self, rows, most):
        """Micro-batches of a rank's sequences: as many on every rank, since passes are collective.  A rank
        that has fewer than `most` sequences gets a token without a target."""
        for first in range(0, most, self.micro):
            yield rows[first:first + self.micro] or [NOTHING]

    def autocast(self):
        """bf16 for products of matrices; weights, gradients and moments stay float32."""
        if self.settings["precision"] == "bf16":
            return torch.autocast(self.ranks.device.type, dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def loss(self, rows):
        """The sum of the losses.  Rows are padded at their ends, which attention before them does not see.
        Compiled models get one length only."""
        length = self.data.max_length if self.compiled else max(len(ids) for ids, _ in rows)
        ids = torch.zeros(len(rows), length, dtype=torch.int64)
        targets = torch.full((len(rows), length), IGNORED, dtype=torch.int64)
        for row, (row_ids, row_targets) in enumerate(rows):
            ids[row, :len(row_ids)] = torch.from_numpy(row_ids)
            targets[row, :len(row_ids)] = torch.from_numpy(row_targets)
        targets[targets < 0] = IGNORED
        ids, targets = ids.to(self.ranks.device), targets.to(self.ranks.device)
        with self.autocast():
            logits = self.model(input_ids=ids).logits
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")

    # ---- the step ----

    def take_step(self, requests):
        """One step; returns its record, without the duration, and the sums over ranks of the numbers that
        `requests()` returns after the passes."""
        ranks, number = self.ranks, self.step + 1
        first, end = ranks.share(self.batch)
        rows = self.rows("train", self.step * self.batch + first, end - first)
        targets, tokens = ranks.sum([count_targets(rows), sum(len(ids) for ids, _ in rows)])
        if targets == 0:
            raise Refused(f"step {number}: none of its {self.batch} sequences has a target")
        torch.manual_seed((self.seed * 1000003 + number * ranks.size + ranks.rank) % 2**63)  # for dropout
        self.model.train()
        total = torch.zeros((), dtype=torch.float64, device=ranks.device)
        parts = list(self.parts(rows, self.batch // ranks.size))
        for index, part in enumerate(parts):
            ranks.delay_sum(self.model, self.stage, index + 1 < len(parts))
            loss = self.loss(part)
            total += loss.detach()
            (loss * (ranks.size / targets)).backward()  # FSDP averages over ranks
        loss, *requested = ranks.sum([total.item(), *requests()])
        record = {"step": number, "loss": loss / targets, "lr": self.training.learning_rate(number)}
        record["grad_norm"] = self.clip(record)
        for group in self.optimizer.param_groups:
            rate = self.shift_training.learning_rate(number) if group["name"] == "shift" else record["lr"]
            group["lr"] = rate * group["factor"]
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step = number
        return {**record, "tokens": int(tokens)}, requested

    def clip(self, record):
        """Scales the gradients down to the norm --clip; returns the norm before."""
        gradients = [parameter.grad for parameter in self.trained if parameter.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        norm = (norm.full_tensor() if hasattr(norm, "full_tensor") else norm).item()
        if not (math.isfinite(record["loss"]) and math.isfinite(norm)):
            raise Diverged(f"step {record['step']} diverged: loss {record['loss']:g}, gradient norm {norm:g}; a lower "
                           f"learning rate (now {record['lr']:g}) may help")
        limit = self.training["clip"]
        if 0 < limit < norm:
            torch._foreach_mul_(gradients, limit / norm)
        return norm

    def evaluate(self):
        """The mean loss of the first --eval-sequences windows of the validation text."""
        count, ranks = self.settings["eval-sequences"], self.ranks
        first, end = ranks.share(count)
        rows = self.rows("valid", first, end - first)
        total = torch.zeros((), dtype=torch.float64, device=ranks.device)
        self.model.train(self.settings["eval-dropout"])
        with torch.no_grad():
            for part in self.parts(rows, -(-count // ranks.size)):
                total += self.loss(part)
        ranks.reshard(self.model)
        loss, targets = ranks.sum([total.item(), count_targets(rows)])
        return loss / targets
