"""Hooks of `DistributedDataParallel.register_comm_hook`, for its one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.dtype import DType, bfloat16, float16
from ..futures import Future
from ..nn.gradient_bucket import GradBucket
from ..tensor.tensor import Tensor

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


def _compressed(bucket: GradBucket, dtype: DType) -> Future[Tensor]:
    buffer = bucket.buffer()
    return _done(buffer.to(dtype).to(buffer.dtype))


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the gradients, averaged over the one process.

    Parameters
    ----------
    process_group : object
        Without effect.
    bucket : GradBucket
    """
    return _done(bucket.buffer())


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the gradients rounded to float16, in which they are sent elsewhere.

    Parameters
    ----------
    process_group : object
        Without effect.
    bucket : GradBucket
    """
    return _compressed(bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the gradients rounded to bfloat16, in which they are sent elsewhere.

    Parameters
    ----------
    process_group : object
        Without effect.
    bucket : GradBucket
    """
    return _compressed(bucket, bfloat16)


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
