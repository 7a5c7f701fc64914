"""Ops that make more than is read, in their shorter form."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.scheduler import plan

LONG, SHORT = "cross_entropy_rows_with_grad", "cross_entropy_rows"


def losses(gpu: GpuDevice, read: slice) -> tuple[list[fw.Tensor], list[str]]:
    """Return some of the results of a loss with its gradient, and the ops that ran."""
    logits = fw.arange(6 * 5, device=gpu).float().reshape(6, 5).sin()
    labels = fw.tensor([0, 4, 2, 1, 3, 0], dtype="int32", device=gpu)
    share = fw.full((), 0.5, device=gpu)
    fw.eval(logits, labels, share)
    gpu.plans.clear()
    with plan.built_plans() as plans:
        results = list(REGISTRY[LONG](logits, labels, share, 2, 0.1)[read])
        fw.eval(*results)
    gpu.plans.clear()
    return results, [each.op for one in plans for each in one.summaries]


@pytest.mark.parametrize("read", [slice(0, 1), slice(1, 4)])
def test_results_that_are_not_read_are_not_made(gpu: GpuDevice, read: slice) -> None:
    results, ops = losses(gpu, read)
    assert ops == [SHORT]
    whole, ops = losses(gpu, slice(None))
    assert ops == [LONG]
    for one, other in zip(results, whole[read], strict=True):
        assert one.tolist() == other.tolist()


def test_a_gradient_that_is_kept_is_made(gpu: GpuDevice) -> None:
    assert losses(gpu, slice(4, None))[1] == [LONG]
