"""Models whose layers are divided among ranks, each of which computes some of them.

A batch goes through in micro-batches, by one forward and one backward pass in turn
(1F1B): a rank has as many activations at once as there are ranks behind it, and itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import ops
from ..autograd.grad_mode import enable_grad, no_grad
from ..base.device import Device
from ..base.errors import DistributedError
from ..tensor.factories import zeros_like
from ..tensor.tensor import Tensor
from .container import Sequential
from .data_parallel import check_alike, checked_group, take_values
from .divided import mark_staged, norm_of_all
from .module import Module
from .pipeline_flow import Flow, flow_of
from .state_dict import IncompatibleKeys
from .utils.clip_grad import get_total_norm

if TYPE_CHECKING:
    from ..communication.group import Group

__all__ = ["Pipeline"]

FORWARD, BACKWARD = "forward", "backward"


def one_forward_one_backward(
    rank: int, ranks: int, micro_batches: int
) -> list[tuple[str, int]]:
    """Return the passes of a rank, with the numbers of their micro-batches.

    Parameters
    ----------
    rank, ranks, micro_batches : int

    Examples
    --------
    >>> one_forward_one_backward(1, 2, 2)
    [('forward', 0), ('backward', 0), ('forward', 1), ('backward', 1)]
    """
    ahead = min(ranks - rank - 1, micro_batches)
    found = [(FORWARD, number) for number in range(ahead)]
    for number in range(micro_batches - ahead):
        found += [(FORWARD, ahead + number), (BACKWARD, number)]
    done = micro_batches - ahead
    return found + [(BACKWARD, number) for number in range(done, micro_batches)]


def balanced(sizes: Sequence[int], parts: int) -> list[int]:
    """Return ends of runs of which the largest sum is least.

    Parameters
    ----------
    sizes : sequence of int
        At least as many as there are parts.
    parts : int

    Examples
    --------
    >>> balanced([1, 1, 1, 9, 1], 3)
    [3, 4, 5]
    """
    count = len(sizes)
    sums = np.concatenate([[0], np.cumsum(sizes)])
    best = [[float(sums[end]) for end in range(count + 1)]]
    cuts: list[list[int]] = []
    for part in range(1, parts):
        best.append([float("inf")] * (count + 1))
        cuts.append([0] * (count + 1))
        for end in range(part + 1, count + 1):
            for cut in range(part, end):
                cost = max(best[part - 1][cut], float(sums[end] - sums[cut]))
                if cost < best[part][end]:
                    best[part][end], cuts[-1][end] = cost, cut
    ends = [count]
    for found in cuts[::-1]:
        ends.insert(0, found[ends[0]])
    return ends


class Pipeline(Module):
    """Layers that ranks compute one after the other, in micro-batches.

    Each rank keeps some of the layers, gets what the rank before it computes, and sends
    on what it computes; gradients go back the same way. `step` takes a batch through
    all of them, forward and backward: its gradients are those that one process adds up
    over the same micro-batches.

    Parameters
    ----------
    stages : Sequential, or sequence of Module
        The whole model, the same on all ranks but for its values, of which those of
        rank 0 count. A module for each rank; of a `Sequential`, or of more modules,
        neighbours go together so that parameters are balanced. Each takes what the one
        before returns: a tensor, or a tuple of them.
    micro_batches : int
        Parts of a batch.
    group : Group, optional
        By default that of all processes.
    loss : callable, optional
        Of outputs and targets, a mean over samples.

    Attributes
    ----------
    stage : Module
        What this rank computes. Its parameters and names in a state are those of the
        whole; those of all ranks together are the model's.

    Raises
    ------
    DistributedError
        If another rank's model has other parameters or buffers, or it makes another
        number of micro-batches.
    ValueError
        If there are fewer modules than ranks.

    Notes
    -----
    A parameter that modules of several ranks share, as an embedding and the layer of
    the logits do, has the sum of their gradients on each of these ranks, which an
    optimizer changes alike; a state has it under each of its names, as that of the
    whole model, and one of them suffices for loading.

    Within `fw.jit`, on a device, messages are nodes of the trace. Give all ranks the
    batch then, of which ranks between use the shape alone: so all trace anew together
    where it is another one. Otherwise a rank that replays raises `DistributedError`.

    Layers that compute over a batch, as `BatchNorm1d`, compute over a micro-batch.
    Source: Narayanan et al., arXiv:2006.09503.

    Examples
    --------
    >>> layers = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> model = nn.Pipeline(layers, 2, loss=nn.functional.mse_loss)
    >>> loss = model.step(fw.ones(4, 2), fw.zeros(4, 1))
    >>> loss.ndim, model.stage[0].weight.grad is not None
    (0, True)
    """

    def __init__(
        self,
        stages: Sequential | Sequence[Module],
        micro_batches: int,
        group: Group | None = None,
        *,
        loss: Callable[[Any, Any], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if micro_batches < 1:
            raise ValueError(
                f"Pipeline: micro_batches is {micro_batches}; it must be at least 1"
            )
        self.group = group = checked_group("Pipeline", group)
        self.micro_batches, self.loss = micro_batches, loss
        named = (
            list(stages.named_children())
            if isinstance(stages, Module)
            else [(str(at), each) for at, each in enumerate(stages)]
        )
        if len(named) < group.size:
            raise ValueError(
                f"Pipeline: there are {len(named)} modules for {group.size} ranks; each"
                " needs one"
            )
        self._tied = _tied(named, group)
        tensors = [
            (f"{name}.{key}", x)
            for name, each in named
            for key, x in [*each.named_parameters(), *each.named_buffers()]
        ]
        if group.size > 1:
            check_alike("Pipeline", group, tensors)
            _check_counts(group, micro_batches)
            take_values(group, [each for _, each in tensors])
        first, last = _span(named, group)
        own = named[first:last]
        for name, each in own:
            setattr(self, name, each)
        self._names = [name for name, _ in own]
        self._elsewhere = [name for name, _ in named if name not in self._names]
        if group.size > 1:
            mark_staged(self.parameters())

    @property
    def stage(self) -> Sequential:
        """What this rank computes."""
        return Sequential(*[self.__dict__[name] for name in self._names])

    @property
    def is_first(self) -> bool:
        """Whether this rank is given the inputs."""
        return self.group.rank == 0

    @property
    def is_last(self) -> bool:
        """Whether this rank computes the outputs and the loss."""
        return self.group.rank == self.group.size - 1

    def _compute(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        found = given
        for name in self._names:
            made = self.__dict__[name](*found)
            found = made if isinstance(made, tuple) else (made,)
        return found

    def step(self, inputs: Any = None, target: Any = None) -> Tensor | None:
        """Take a batch forward and backward; gradients are added to those there are.

        Parameters
        ----------
        inputs : Tensor, or tuple of them
            Of the first rank; others may give None.
        target : Tensor, or tuple of them
            Of the last rank, for the loss.

        Returns
        -------
        Tensor or None
            Mean loss over the batch, of the last rank; None on the others.

        Raises
        ------
        DistributedError
            If another rank has ended.
        ValueError
            If the first rank has no inputs, the last no target or no loss, or there
            are fewer samples than micro-batches.
        """
        if self.is_last and (self.loss is None or target is None):
            raise ValueError(
                "Pipeline.step: the last rank has no loss or no target; give loss to"
                " the Pipeline, and target to step"
            )
        flow = self._flow("step", inputs)
        targets = self._cut("step", target, self.is_last)
        total: Tensor | None = None
        order = one_forward_one_backward(
            self.group.rank, self.group.size, self.micro_batches
        )
        counts = [_rows(each) for each in targets] if self.is_last else []
        before = [self._tied_parameter(each).grad for each in self._tied]
        for tied in self._tied:
            self._tied_parameter(tied).grad = None
        with enable_grad():
            for what, number in order:
                if what == FORWARD:
                    given = flow.receive(number)
                    out = self._compute(given)
                    if self.is_last:
                        assert self.loss is not None
                        wanted = targets[number]
                        loss = self.loss(_single(out), _single(wanted))
                        out = (loss * (counts[number] / sum(counts)),)
                        part = out[0].detach()
                        total = part if total is None else total + part
                    flow.send(number, given, out, last=self.is_last)
                else:
                    flow.go_back(number, first=self.is_first)
        for tied, grad in zip(self._tied, before):
            self._add_gradients(flow, tied, grad)
        flow.finish()
        return total

    def _tied_parameter(self, tied: _Tied) -> Tensor:
        path, _, key = tied.path.rpartition(".")
        found: Tensor = getattr(self.get_submodule(path), key)
        return found

    def _add_gradients(self, flow: Flow, tied: _Tied, before: Tensor | None) -> None:
        """Add the gradients of all ranks that have a parameter, in rank order."""
        parameter = self._tied_parameter(tied)
        if not parameter.requires_grad:
            return
        own, tag = parameter.grad, 3 * self.micro_batches + tied.number
        with no_grad():
            total = zeros_like(parameter.detach()) if own is None else own
            first, *others = tied.owners
            if self.group.rank == first:
                for each in others:
                    total = total + flow.arrive_like(total, each, tag)
                for each in others:
                    flow.post(total, each, tag)
            else:
                flow.post(total, first, tag)
                total = flow.arrive_like(total, first, tag)
            parameter.grad = total if before is None else before + total

    def forward(self, inputs: Any = None) -> Any:
        """Return the outputs on the last rank, None on the others; without gradients.

        Parameters
        ----------
        inputs : Tensor, or tuple of them
            Of the first rank; others may give None.
        """
        flow = self._flow("forward", inputs)
        found = []
        with no_grad():
            for number in range(self.micro_batches):
                out = self._compute(flow.receive(number))
                if self.is_last:
                    found.append(out)
                else:
                    flow.send(number, (), out, last=False)
        flow.finish()
        if not self.is_last:
            return None
        return _single(tuple(ops.cat(list(each)) for each in zip(*found)))

    def _flow(self, where: str, inputs: Any) -> Flow:
        cut = self._cut(where, inputs, self.is_first)
        return flow_of(self.group, self._place(), cut)

    def _place(self) -> Device:
        own = next(self.parameters(), None)
        return self.group.device if own is None else own.device

    def _cut(self, where: str, given: Any, mine: bool) -> list[tuple[Any, ...]]:
        """Return the micro-batches of what this rank has to be given."""
        if not mine:
            return []
        if given is None:
            raise ValueError(
                f"Pipeline.{where}: rank {self.group.rank} is given nothing; the first"
                " rank needs the inputs, the last the target"
            )
        tensors = given if isinstance(given, tuple) else (given,)
        rows = tensors[0].shape[0]
        if rows < self.micro_batches:
            raise ValueError(
                f"Pipeline.{where}: there are {rows} samples for {self.micro_batches}"
                " micro-batches; each needs one"
            )
        ends = [rows * k // self.micro_batches for k in range(self.micro_batches + 1)]
        return [
            tuple(each[low:high] for each in tensors) for low, high in pairwise(ends)
        ]

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale gradients so that the norm of those of all ranks has a bound.

        Parameters
        ----------
        max_norm : float
        norm_type : float, default 2
            Order of the norm.

        Returns
        -------
        Tensor
            The norm before.
        """
        # Of what several ranks have the first one counts it.
        others = [each for each in self._tied if each.owners[0] != self.group.rank]
        left = {id(self._tied_parameter(each)) for each in others}
        found = [(id(x), x.grad) for x in self.parameters() if x.grad is not None]
        grads = [grad for _, grad in found]
        counted = [grad for key, grad in found if key not in left]
        own = get_total_norm(counted, norm_type).to(self._place())
        with no_grad():
            if norm_type < 0 and not counted:
                own = own + math.inf  # the least of nothing
            norm = norm_of_all(self.group, None, own, norm_type)
            factor = ops.clamp_max(max_norm / (norm + 1e-6), 1.0)
            for each in grads:
                each.mul_(factor.to(each.dtype))
        return norm

    def shared_names(self) -> dict[str, str]:
        """Return, of parameters that a rank before has, too, their first names there.

        Returns
        -------
        dict of str to str
            By their first names on this rank.
        """
        own = self.group.rank
        return {each.path: each.other for each in self._tied if each.owners[0] != own}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Load this rank's part of the state of the whole model.

        Parameters
        ----------
        state_dict : mapping of str to Tensor
            It may have what other ranks compute.
        strict, assign : bool
            See `Module.load_state_dict`.
        """
        own = {
            key: value
            for key, value in state_dict.items()
            if key.partition(".")[0] not in self._elsewhere
        }
        for each in self._tied:
            if each.path not in own and each.other in state_dict:
                own[each.path] = state_dict[each.other]
        return super().load_state_dict(own, strict, assign)


def _single(found: tuple[Any, ...]) -> Any:
    return found[0] if len(found) == 1 else found


def _rows(given: tuple[Any, ...]) -> int:
    return int(given[0].shape[0])


def _sizes(named: Iterable[tuple[str, Module]]) -> list[int]:
    return [1 + sum(x.numel() for x in each.parameters()) for _, each in named]


def _span(
    named: Sequence[tuple[str, Module]], group: Group, rank: int | None = None
) -> tuple[int, int]:
    """Return the first module of a rank, and the end."""
    rank = group.rank if rank is None else rank
    ends = [0, *balanced(_sizes(named), group.size)]
    return ends[rank], ends[rank + 1]


def _check_counts(group: Group, micro_batches: int) -> None:
    """Raise if ranks would wait for other numbers of messages."""
    every = group.gather_objects(micro_batches)
    for rank, count in enumerate(every):
        if count != every[0]:
            raise DistributedError(
                f"Pipeline: micro_batches is {every[0]} on rank 0 and {count} on rank"
                f" {rank}; it must be the same on all ranks"
            )


class _Tied(NamedTuple):
    """A parameter that several ranks have, this one among them.

    Attributes
    ----------
    number : int
        Of all such parameters of the model.
    owners : tuple of int
        Ranks that have it.
    path, other : str
        Its first name on this rank, and its first name on the first that has it.
    """

    number: int
    owners: tuple[int, ...]
    path: str
    other: str


def _tied(named: Sequence[tuple[str, Module]], group: Group) -> list[_Tied]:
    """Return the parameters that this rank shares with others."""
    owners: dict[int, dict[int, str]] = {}
    for rank in range(group.size):
        first, last = _span(named, group, rank)
        for name, each in named[first:last]:
            for key, x in each.named_parameters():
                owners.setdefault(id(x), {}).setdefault(rank, f"{name}.{key}")
    shared = [each for each in owners.values() if len(each) > 1]
    return [
        _Tied(number, tuple(each), each[group.rank], next(iter(each.values())))
        for number, each in enumerate(shared)
        if group.rank in each
    ]
