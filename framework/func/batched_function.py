"""User-defined functions on batched tensors: `forward` and `backward` on batches.

The tape has a node for the real tensors, whose rule wraps them, runs the user's method,
and takes the real results.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autograd.function import Function
from ..base.errors import GradError
from ..tensor.tensor import Tensor
from .batched_tensor import (
    BatchedTensor,
    BatchLevel,
    batched_along,
    batching_level,
    levels_of,
    real_of,
    wrapped,
)
from .vmap import entered, left

Levels = tuple[BatchLevel, ...]


class BatchInfo(NamedTuple):
    """What the `vmap` method of a function is told of the batch.

    Attributes
    ----------
    batch_size : int
    randomness : str
    """

    batch_size: int
    randomness: str


def applied(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return `cls.apply` of arguments of which some are batched."""
    if cls.vmap is not Function.vmap:
        if cls.generate_vmap_rule:
            raise GradError(
                f"vmap: {cls.__name__} has a vmap method, and generate_vmap_rule is"
                " True; leave one of them out"
            )
        return _by_rule(cls, args)
    levels = levels_of(args)
    given = [
        real_of(batched_along(each, levels)) if isinstance(each, Tensor) else each
        for each in args
    ]
    answer = _OnBatch.apply(cls, levels, kwargs, *given)
    single = not isinstance(answer, tuple)
    found = [
        wrapped(each, levels) if isinstance(each, Tensor) else each
        for each in ((answer,) if single else answer)
    ]
    return found[0] if single else tuple(found)


def _by_rule(cls: Any, args: tuple[Any, ...]) -> Any:
    """Return the result of a function's own `vmap`, for the innermost level."""
    level = levels_of(args)[-1]
    in_dims = tuple(
        [0 if level in levels_of([each]) else None for each in args],
    )
    given = [
        each if dim is None else left(each, 0, level)
        for each, dim in zip(args, in_dims)
    ]
    info = BatchInfo(level.size, level.randomness)
    outputs, out_dims = cls.vmap(info, in_dims, *given)
    if not isinstance(outputs, tuple):
        return outputs if out_dims is None else entered(outputs, out_dims, level)
    dims = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
    return tuple(
        [
            each if dim is None else entered(each, dim, level)
            for each, dim in zip(outputs, dims)
        ]
    )


class _OnBatch(Function):
    """A user's function on real tensors with batch dimensions in front."""

    @staticmethod
    def forward(
        ctx: Any, cls: Any, levels: Levels, kwargs: dict[str, Any], *args: Any
    ) -> Any:
        batched = tuple([_wrapped(each, levels) for each in args])
        inner = cls._node_class(batched)
        inner.needs_input_grad = tuple(
            [isinstance(each, Tensor) and each.requires_grad for each in args]
        )
        if cls.setup_context is Function.setup_context:
            answer = cls.forward(inner, *batched, **kwargs)
        else:
            answer = cls.forward(*batched)
            cls.setup_context(inner, batched, answer)
        ctx.inner, ctx.levels, ctx.count = inner, levels, len(args)
        outputs = answer if isinstance(answer, tuple) else (answer,)
        real = {id(each): _real(each, levels) for each in outputs}
        own = {id(each): arg for each, arg in zip(batched, args)}
        ctx.save_for_backward(
            *[
                each
                if each is None
                else real.get(id(each), own.get(id(each), real_of(each)))
                for each in inner._to_save
            ]
        )
        ctx.batched = [isinstance(each, BatchedTensor) for each in inner._to_save]
        ctx.mark_dirty(*[own[id(each)] for each in inner._dirty])
        ctx.mark_non_differentiable(*[real[id(e)] for e in inner._without_gradient])
        ctx.set_materialize_grads(inner._materialize)
        found = [
            own[id(each)] if id(each) in own else real[id(each)] for each in outputs
        ]
        return tuple(found) if isinstance(answer, tuple) else found[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        inner, levels = ctx.inner, ctx.levels
        inner._to_save = tuple(
            [
                _wrapped(each, levels) if batched else each
                for each, batched in zip(ctx.saved_tensors, ctx.batched)
            ]
        )
        given = [_wrapped(each, levels) for each in grads]
        # The pass may run once the blocks of the levels have ended.
        try:
            with batching_level(*levels):
                answers = inner._rule()(inner, *given)
        finally:
            inner._to_save = ()
        if not isinstance(answers, tuple):
            answers = (answers,)
        found = [None if each is None else _real(each, levels) for each in answers]
        return None, None, None, *found


def _wrapped(value: Any, levels: Levels) -> Any:
    return wrapped(value, levels) if isinstance(value, Tensor) else value


def _real(value: Any, levels: Levels) -> Any:
    if not isinstance(value, Tensor):
        return value
    return real_of(batched_along(value, levels))
