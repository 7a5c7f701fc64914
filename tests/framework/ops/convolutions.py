"""Convolutions beside PyTorch's, and on kernels that not every device would take."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.large import forget_plans, relative_error
from vkbackend import DeviceInfo
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float32
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.conv.problem import ConvCall, Convolution
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.gemm.tiles import SIMT, TENSOR_CORES

Convolved = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]
"""Shapes of images and filters, and how the filters move."""


def name_of(row: Convolved) -> str:
    """Return what a test of a convolution is called."""
    x, weight, options = row
    return f"{x}-{weight}-{options}"


def call_of(
    gpu: DeviceInfo,
    x: tuple[int, ...],
    filters: int,
    window: Window,
    dtype: DType = float32,
    groups: int = 1,
) -> ConvCall:
    """Return a convolution of images with as many filters, on a device."""
    images = TensorSpec(x, dtype)
    weight = TensorSpec((filters, x[1] // groups, *window.kernel), dtype)
    how = Convolution(window, groups, TENSOR_CORES if dtype.itemsize == 2 else SIMT)
    return ConvCall(gpu, how, images, weight, how.out(images, weight))


def on_any_device(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, *passes: str
) -> Iterator[dict[str, list[str]]]:
    """Let any device take a module's kernels; yield those that run, by pass.

    Parameters
    ----------
    monkeypatch : pytest.MonkeyPatch
    module : module
        One of those that `conv` chooses among.
    passes : str
        Its functions that answer.
    """
    taken: dict[str, list[str]] = {}

    def answering(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
        def answered(call: ConvCall, *rest: Any) -> Any:
            gpu = dataclasses.replace(call.gpu, kind="discrete")
            found = rule(call._replace(gpu=gpu), *rest)
            if found:
                dispatches = [found] if isinstance(found, Dispatch) else found
                kernels = [dispatch.kernel for dispatch in dispatches]
                taken.setdefault(name, []).extend(kernels)
            return found

        return answered

    for name in passes:
        monkeypatch.setattr(module, name, answering(name, getattr(module, name)))
    forget_plans()
    yield taken
    forget_plans()


def both_ways(
    make: Callable[..., fw.Tensor],
    shapes: Sequence[tuple[int, ...]],
    options: dict[str, Any],
    name: str = "conv2d",
) -> list[tuple[fw.Tensor, np.ndarray]]:
    """Return the result and the gradients of a convolution, each beside PyTorch's.

    Parameters
    ----------
    make : callable
        From an array, and whether it wants a gradient, to a tensor.
    shapes : sequence of tuples
        Of images and filters, and of a bias if there is one.
    options : dict
        As the function takes them.
    name : str, default "conv2d"
        Of the function.
    """
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    mine = [make(each, grad=True) for each in arrays]
    twins = [torch.tensor(each.detach().numpy(), dtype=torch.float64) for each in mine]
    for twin in twins:
        twin.requires_grad_()
    found, wanted = (
        getattr(module, name)(*given, **options)
        for module, given in ((ops, mine), (F, twins))
    )
    grad = make(rng.uniform(-1, 1, found.shape).astype(np.float32))
    found.backward(grad)
    wanted.backward(torch.from_numpy(grad.numpy()).double())
    pairs = [(found, wanted.detach().numpy())]
    for one, other in zip(mine, twins):
        assert other.grad is not None
        pairs.append((one.grad, other.grad.numpy()))
    return pairs


def check(
    gpu: GpuDevice,
    shapes: Sequence[tuple[int, ...]],
    options: dict[str, Any],
    dtype: str = "float32",
    bound: float = 1e-6,
    name: str = "conv2d",
) -> None:
    """Compare a convolution and its gradients with PyTorch's in float64."""

    def make(array: np.ndarray, grad: bool = False) -> fw.Tensor:
        return fw.tensor(array, dtype, gpu, grad)

    for found, wanted in both_ways(make, shapes, options, name):
        assert relative_error(found.detach().numpy(), wanted) < bound
