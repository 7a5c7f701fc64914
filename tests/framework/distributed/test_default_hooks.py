"""Compressing hooks round the gradients as PyTorch's do."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.distributed import default_hooks
from vkbackend.framework.nn.gradient_bucket import GradBucket

torch = pytest.importorskip("torch")

VALUES = [[1.0 / 3, 2.0 / 3], [1e-8, 1234.567]]


def bucket() -> GradBucket:
    """Return a bucket of some gradients."""
    gradient = fw.tensor(VALUES)
    return GradBucket(0, True, [gradient], gradient.reshape(-1))


@pytest.mark.parametrize(
    ("name", "dtype"), [("fp16", torch.float16), ("bf16", torch.bfloat16)]
)
def test_gradients_are_rounded(name: str, dtype: Any) -> None:
    expected = torch.tensor(VALUES).to(dtype).float().reshape(-1).numpy()
    hook = getattr(default_hooks, f"{name}_compress_hook")
    wrapper = getattr(default_hooks, f"{name}_compress_wrapper")
    for each in (hook, wrapper(default_hooks.allreduce_hook)):
        found = each(None, bucket()).wait()
        assert found.dtype is fw.float32
        np.testing.assert_array_equal(found.numpy(), expected)


def test_reduction_alone_changes_nothing() -> None:
    found = default_hooks.allreduce_hook(None, bucket()).wait()
    assert found.tolist() == fw.tensor(VALUES).reshape(-1).tolist()


def test_they_are_at_their_address() -> None:
    from vkbackend.framework.distributed.algorithms.ddp_comm_hooks import (  # type: ignore[import-not-found]  # made by the table
        default_hooks as found,
    )

    assert found.fp16_compress_hook is default_hooks.fp16_compress_hook
