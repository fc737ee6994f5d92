"""The processes of a run: one per GPU, or per part of a processor, started by torchrun.

Weights, gradients and moments are divided among them by FSDP2, as far as --shard says:

    none         every rank has all of them (sharded over groups of one rank)
    optimizer    moments and weights between steps are sharded; gradients are summed once per step
    gradients    gradients too: they are summed after each micro-batch
    parameters   weights are gathered for one layer at a time

With --replicas N the ranks form N groups, such as the machines of a cluster; what is sharded is divided
within each group, and gradients are also summed over the groups.
"""
import datetime
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from configuration import Refused


class Ranks:
    """This process and the others.  Without torchrun there is one rank and no process group.

    `kind` is cpu, cuda or auto; a rank's GPU has the rank's number on its machine."""

    def __init__(self, kind, minutes):
        self.rank, self.size, self.local = (int(os.environ.get(name, default)) for name, default in
                                            (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
        if kind == "auto":
            kind = "cuda" if torch.cuda.is_available() else "cpu"
        if kind == "cuda":
            if not torch.cuda.is_available():
                raise Refused("option '--device' is cuda, but PyTorch finds no GPU")
            if self.local >= torch.cuda.device_count():
                raise Refused(f"rank {self.rank} needs GPU {self.local}, but this machine has "
                              f"{torch.cuda.device_count()}; give torchrun another --nproc-per-node")
            torch.cuda.set_device(self.local)
        self.device = torch.device(kind, self.local) if kind == "cuda" else torch.device(kind)
        self.started = "RANK" in os.environ
        if self.started:
            limit = datetime.timedelta(minutes=minutes) if minutes else datetime.timedelta(days=365)
            dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=limit,
                                    device_id=self.device if kind == "cuda" else None)

    @property
    def is_first(self):
        return self.rank == 0

    def device_name(self):
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"

    def close(self):
        if self.started:
            dist.destroy_process_group()
            self.started = False

    # ---- exchanges ----

    def sum(self, values):
        """The sum of each number over all ranks, as float64, which is exact for counts up to 2^53."""
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        if self.started:
            dist.all_reduce(total)
        return total.tolist()

    def from_first(self, make):
        """What `make()` returns on rank 0, on all ranks.  If it fails there, all ranks fail."""
        box = [None, None]
        if self.is_first:
            try:
                box[0] = make()
            except Exception as error:
                if not self.started:
                    raise
                box[1] = error if isinstance(error, Refused) else Refused(str(error))
        if self.started:
            dist.broadcast_object_list(box, src=0, device=self.device)
        if box[1] is not None:
            raise box[1]
        return box[0]

    def share(self, count):
        """The first and the end of this rank's part of `count` sequences."""
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    # ---- the model ----

    def shard(self, model, stage, replicas, layers):
        """Moves a model to the device and divides it among the ranks.  `layers` are moved, divided and gathered
        one at a time: the whole model need not fit."""
        if replicas < 1 or self.size % replicas or (replicas > 1 and stage == "none"):
            raise Refused(f"option '--replicas' is {replicas}, expected a divisor of the number of ranks, {self.size}, "
                          "and a --shard other than none", 2)
        if not self.started:
            model.to(self.device)
            return
        shape = (self.size, 1) if stage == "none" else (replicas, self.size // replicas)
        mesh = init_device_mesh(self.device.type, shape, mesh_dim_names=("replicas", "shards"))
        for part in (*layers, model):
            fully_shard(part, mesh=mesh, reshard_after_forward=stage == "parameters")

    def delay_sum(self, model, stage, is_delayed):
        """Whether the gradients of the next micro-batch wait for those of the following ones."""
        if self.started and stage in ("none", "optimizer"):
            model.set_requires_gradient_sync(not is_delayed)

    def reshard(self, model):
        """After passes without a backward pass: weights that were gathered are divided again."""
        for part in model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()

    def fill(self, model, whole):
        """Sets the weights of a model to those of the library's model on rank 0."""
        names = {name for name, _ in model.named_parameters()}
        if self.is_first and names != whole.tensors().keys():
            first = sorted(names ^ whole.tensors().keys())[0]
            raise Refused(f"PyTorch cannot train this model: only one of PyTorch and kvshift has '{first}'")
        for name, parameter in model.named_parameters():
            values = torch.empty(parameter.shape, dtype=torch.float32, device=self.device)
            if self.is_first:
                values.copy_(torch.from_numpy(whole.tensor(name)).view(parameter.shape))
            if self.started:
                dist.broadcast(values, 0)
            with torch.no_grad():
                if isinstance(parameter, DTensor):
                    values = distribute_tensor(values, parameter.device_mesh, parameter.placements, src_data_rank=None)
                parameter.copy_(values)

    def gather(self, model, chosen=lambda name: True):
        """Names and whole values of weights, one by one.  All ranks must take all of them."""
        for name, parameter in model.named_parameters():
            if chosen(name):
                value = parameter.detach()
                yield name, (value.full_tensor() if isinstance(value, DTensor) else value).float().cpu().numpy()
