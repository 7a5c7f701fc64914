"""Hooks of `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtype import DType, bfloat16, float16
from ..base.process_group import default_group
from ..futures import Future
from ..nn.gradient_bucket import GradBucket
from ..tensor.tensor import Tensor
from .collectives import engine_for

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def _done(result: Tensor) -> Future[Tensor]:
    future: Future[Tensor] = Future()
    future.set_result(result)
    return future


def _compressed(process_group: Any, bucket: GradBucket, dtype: DType) -> Future[Tensor]:
    buffer = bucket.buffer()
    return _done(_mean(process_group, buffer.to(dtype)).to(buffer.dtype))


def _mean(process_group: Any, buffer: Tensor) -> Tensor:
    if process_group is None and default_group() is None:
        return buffer
    return engine_for("allreduce_hook", process_group).all_mean(buffer)


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the means of gradients over the processes.

    Parameters
    ----------
    process_group : ProcessGroup or None
        By default the one that was initialised, if there is one.
    bucket : GradBucket
    """
    return _done(_mean(process_group, bucket.buffer()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the gradients averaged in float16, in which they are sent.

    Parameters
    ----------
    process_group : ProcessGroup or None
        By default the one that was initialised, if there is one.
    bucket : GradBucket
    """
    return _compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the gradients averaged in bfloat16, in which they are sent.

    Parameters
    ----------
    process_group : ProcessGroup or None
        By default the one that was initialised, if there is one.
    bucket : GradBucket
    """
    return _compressed(process_group, bucket, bfloat16)


def _wrapped(hook: Hook, dtype: DType) -> Hook:
    def call(state: Any, bucket: GradBucket) -> Future[Tensor]:
        own = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype))
        return hook(state, bucket).then(lambda done: done.value().to(own))

    return call


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that calls another one with the gradients in float16.

    Parameters
    ----------
    hook : callable
    """
    return _wrapped(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that calls another one with the gradients in bfloat16.

    Parameters
    ----------
    hook : callable
    """
    return _wrapped(hook, bfloat16)
