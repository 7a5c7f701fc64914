"""Averages of gradients over ranks, in buckets while a backward pass runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import ops
from ..autograd.grad_mode import no_grad
from ..autograd.running_pass import running
from ..base import trace_hooks
from ..base.errors import GradError
from ..eager.base_tensor import evaluate
from ..tensor.factories import ones, zeros
from ..tensor.from_data import tensor as tensor_of
from ..tensor.tensor import Tensor
from .gradient_bucket import GradBucket, buckets_of, pieces

if TYPE_CHECKING:
    from ..autograd.engine import BackwardPass
    from ..communication.group import Group


class BucketSizes(NamedTuple):
    """Sizes of buckets, in bytes.

    Attributes
    ----------
    most : int
        Of a bucket of more than one parameter.
    last : int
        Size down to which the last buckets become smaller.
    """

    most: int
    last: int


BUCKETS = BucketSizes(25 << 20, 1 << 20)
"""PyTorch's size. An exchange of fewer bytes than the last takes about as long."""

TRANSPORT_BUCKETS = {
    "cuda": BucketSizes(10 << 20, 1 << 20),
    "host": BucketSizes(25 << 20, 4 << 20),
}
"""Those of transports for which others were seen to be better.

`cuda`: GPT-2 small in bfloat16 on two H200 (driver 580.159.04, 2026-11-29) takes
34.37 ms a step with buckets of 10 MiB, 34.55 with 25 and 34.46 with 50, where 33.9 to
34.2 are without exchange; an exchange takes 0.09 ms and 1 ms for 335 MB. `host`: each
exchange takes 0.25 ms beside 1 ms for 25 MB, so a megabyte takes 0.04 ms within another
bucket and 0.29 alone. Computed from these figures, and from when gradients were there
(23.6 MB each 2 ms), the last exchange ends 3.77 ms after the backward pass with 25 MiB
down to 4, 4.02 with 25 down to 1, 3.90 with 10 down to 4, 4.16 with 5 down to 4; the
words' takes 3.1 of them.
"""


VECTOR = 8
"""Elements of which vectors of 16 bytes consist at most. Gradients whose sizes are no
multiples come last in a bucket, and flags are padded: so that what joins a bucket, and
what reads the gradients in it, takes vectors of the others."""


def flag_count(parameters: int) -> int:
    """Return how many flags a bucket of some parameters has, with those that pad."""
    return -(-parameters // VECTOR) * VECTOR


def bucket_sizes(group: Group) -> BucketSizes:
    """Return the sizes of buckets that ranks exchange, where no other is asked for."""
    return TRANSPORT_BUCKETS.get(group.transport.name, BUCKETS)


class Reducer:
    """Replaces gradients of parameters by their means over the ranks of a group.

    Parameters are in buckets, in the reverse of their order, which is about that of a
    backward pass; the last ones are smaller, as little is left to compute beside their
    exchange. Once all gradients of a bucket have been accumulated its computation
    is submitted, and the bucket before it is exchanged meanwhile. All ranks exchange
    the same buckets in the same order, whatever parameters they used: the rest follows
    at the end of the pass.

    Beside its gradients a bucket carries which parameters were used. The gradient of
    one that no rank used stays None; of one that others used it is the mean, with 0 of
    this rank.

    Parameters
    ----------
    group : Group
    parameters : sequence of (str, Parameter)
        With their names, for messages; those that require gradients.
    bucket_bytes : int
        Bytes that a bucket has at most, if it has more than one parameter; see
        `buckets_of`.

    Attributes
    ----------
    enabled : bool
        Whether backward passes exchange gradients; else they accumulate them.
    hook : callable or None
        Makes the gradients of a bucket instead.
    scale : float
        What means are multiplied by.
    """

    def __init__(
        self,
        group: Group,
        parameters: Sequence[tuple[str, Tensor]],
        bucket_bytes: int,
    ) -> None:
        self.group = group
        self.enabled = True
        self.scale = 1.0
        self.hook: Callable[[GradBucket], Tensor] | None = None
        ordered = list(parameters)[::-1]
        self._names = [name for name, _ in ordered]
        self._parameters = [each for _, each in ordered]
        last = bucket_sizes(group).last
        found = buckets_of(self._parameters, bucket_bytes, last)
        uneven = [each.numel() % VECTOR != 0 for each in self._parameters]
        self.buckets = [sorted(each, key=uneven.__getitem__) for each in found]
        self._bucket_of = {
            place: index
            for index, bucket in enumerate(self.buckets)
            for place in bucket
        }
        self._pass: _Exchanges | None = None
        self._attached = False
        if group.size > 1:
            self.attach()

    def attach(self) -> None:
        """Let gradients that are accumulated be exchanged, as among several ranks."""
        if self._attached:
            return
        self._attached = True
        # A reducer that is gone exchanges nothing: its module was dropped.
        own = weakref.ref(self)
        for place, each in enumerate(self._parameters):
            each.register_post_accumulate_grad_hook(_accumulated(own, place))

    def accumulated(self, place: int) -> None:
        """Note that the gradient of a parameter is complete; see `attach`."""
        if not self.enabled or not running.passes:
            return
        outermost = running.passes[0]
        if self._pass is None or self._pass.owner() is not outermost:
            self._pass = _Exchanges(outermost, [len(each) for each in self.buckets])
            outermost.at_end.append(self._finish)
        state = self._pass
        index = self._bucket_of[place]
        if index < state.next:
            raise GradError(
                f"backward: the gradient of {self._names[place]} was exchanged, and"
                " another part of it comes; use no_sync() but for the last backward"
                " pass of a step"
            )
        state.left[index] -= place not in state.ready
        state.ready.add(place)
        while state.next < len(self.buckets) and not state.left[state.next]:
            self._submit(state)

    def follow(self) -> None:
        """Take part in the exchanges of a pass of other ranks, with gradients of 0."""
        if self.hook is not None:
            raise NotImplementedError(
                "join: a communication hook exchanges gradients, which ranks without a"
                " batch cannot follow; leave the hook out"
            )
        with no_grad():
            for bucket in self.buckets:
                own = [self._parameters[place] for place in bucket]
                count = sum(each.numel() for each in own) + flag_count(len(own))
                like = own[0]
                empty = zeros(count, dtype=like.dtype, device=like.device)
                self.group.all_mean(empty)

    def _finish(self) -> None:
        """Exchange what is left at the end of a pass."""
        state, self._pass = self._pass, None
        if state is None:
            return
        while state.next < len(self.buckets):
            self._submit(state)
        self._exchange_waiting(state)

    def _submit(self, state: _Exchanges) -> None:
        """Let the gradients of the next bucket be computed, and exchange the last."""
        index = state.next
        state.next += 1
        with no_grad():
            bucket, used = self._packed(index)
            if trace_hooks.listener() is None:
                evaluate(bucket.buffer())
            self._exchange_waiting(state)
        state.waiting = bucket, used

    def _packed(self, index: int) -> tuple[GradBucket, list[bool]]:
        """Return the gradients of a bucket, and which parameters were used."""
        places = self.buckets[index]
        parameters = [self._parameters[place] for place in places]
        used = [each.grad is not None for each in parameters]
        parts = []
        for place, each in zip(places, parameters):
            grad = each.grad
            if grad is None:
                self._check_unused(place)
                grad = zeros(each.shape, dtype=each.dtype, device=each.device)
            if grad.is_wrapper:
                raise NotImplementedError(
                    f"backward: the gradient of {self._names[place]} is sparse, and"
                    " ranks exchange dense ones; let the layer have sparse=False"
                )
            parts.append(grad.detach().reshape(-1))
        if self.hook is None:
            parts.append(_flags(used, parts[0]))
        buffer = ops.cat(parts)
        is_last = index == len(self.buckets) - 1
        return GradBucket(index, is_last, parameters, buffer), used

    def _check_unused(self, place: int) -> None:
        if trace_hooks.listener() is not None and self.hook is None:
            raise GradError(
                f"backward: {self._names[place]} got no gradient, and within jit ranks"
                " cannot tell whether others have one; let it not require one, or take"
                " this step without jit"
            )

    def _exchange_waiting(self, state: _Exchanges) -> None:
        if state.waiting is None:
            return
        (bucket, used), state.waiting = state.waiting, None
        with no_grad():
            if self.hook is not None:
                found = self.hook(bucket)
                used = used if self.group.size == 1 else [True] * len(used)
            else:
                found = self.group.all_mean(bucket.buffer())
                if not all(used):
                    start = found.numel() - flag_count(len(used))
                    flags = found[start : start + len(used)].tolist()
                    used = [flag != 0 for flag in flags]
            if self.scale != 1.0:
                found = found * self.scale
            parameters = bucket.parameters()
            for each, piece, keep in zip(parameters, pieces(found, parameters), used):
                if keep:
                    each.grad = piece


class _Exchanges:
    """How far the exchanges of a backward pass are."""

    def __init__(self, owner: BackwardPass, left: list[int]) -> None:
        self.owner = weakref.ref(owner)
        self.left = left
        self.ready: set[int] = set()
        self.next = 0
        self.waiting: tuple[GradBucket, list[bool]] | None = None


def _accumulated(reducer: weakref.ref[Reducer], place: int) -> Callable[[Tensor], None]:
    def call(parameter: Tensor) -> None:
        found = reducer()
        if found is not None:
            found.accumulated(place)

    return call


def _flags(used: Sequence[bool], like: Tensor) -> Tensor:
    options: dict[str, Any] = {"dtype": like.dtype, "device": like.device}
    count = flag_count(len(used))
    if all(used):
        return ones(count, **options)
    padded = [*used, *(True,) * (count - len(used))]
    return tensor_of([float(each) for each in padded], **options)
