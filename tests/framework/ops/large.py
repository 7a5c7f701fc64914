"""Products on kernels for fast devices, run wherever the tests run."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend import DeviceInfo
from vkbackend.framework.base.device import Device, opened_devices
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.gemm import candidates
from vkbackend.framework.kernels.gpu_model import H200, MODELS

MODES = tuple(H200.gemm)

Rule = Callable[..., list[Dispatch] | None]

# batch, m, n, k: whole tiles, ragged ones, less than a tile, a depth that is cut.
SIZES = [
    (1, 64, 64, 64),
    (2, 70, 90, 33),
    (2, 200, 136, 64),
    (3, 131, 257, 77),
    (1, 300, 64, 1100),
    (5, 33, 33, 16),
]


def as_discrete(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    rule: Rule,
    module: ModuleType = candidates,
) -> Iterator[list[str]]:
    """Let a module use a rule for discrete devices; yield the kernels it answers."""
    kernels: list[str] = []

    def answered(gpu: DeviceInfo, *rest: Any) -> list[Dispatch] | None:
        found = rule(dataclasses.replace(gpu, kind="discrete"), *rest)
        kernels.extend(dispatch.kernel for dispatch in found or ())
        return found

    monkeypatch.setattr(module, name, answered)
    forget_plans()
    yield kernels
    forget_plans()


def change_model(monkeypatch: pytest.MonkeyPatch, **figures: object) -> None:
    """Change figures in all models."""
    for name, model in MODELS.items():
        monkeypatch.setitem(MODELS, name, dataclasses.replace(model, **figures))  # type: ignore[arg-type]


def change_costs(
    monkeypatch: pytest.MonkeyPatch, modes: Iterable[str] = MODES, **figures: object
) -> None:
    """Change costs and thresholds of large GEMMs in all models."""
    for name, model in MODELS.items():
        gemm = dict(model.gemm)
        gemm |= {mode: dataclasses.replace(gemm[mode], **figures) for mode in modes}  # type: ignore[arg-type]
        monkeypatch.setitem(MODELS, name, dataclasses.replace(model, gemm=gemm))


def forget_plans() -> None:
    """Let the next flush of every device ask rules anew."""
    for device in opened_devices():
        device.plans.clear()


def operands(
    place: Device, sizes: tuple[int, int, int, int], turned: str, dtype: str
) -> tuple[fw.Tensor, fw.Tensor, np.ndarray]:
    """Return the operands of a product, some stored turned, and what NumPy makes."""
    batch, m, n, k = sizes
    rng = np.random.default_rng(m + n + k)
    pair = []
    for name, shape in (("a", (batch, m, k)), ("b", (batch, k, n))):
        values = rng.standard_normal(shape).astype(np.float32)
        if name in turned:
            flat = np.ascontiguousarray(values.swapaxes(1, 2))
            pair.append(fw.tensor(flat, dtype, place).transpose(1, 2))
        else:
            pair.append(fw.tensor(values, dtype, place))
    a, b = pair
    return a, b, a.numpy().astype(np.float64) @ b.numpy().astype(np.float64)


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """Return the relative error in the root mean square."""
    difference = got.astype(np.float64) - want
    return float(np.sqrt(np.mean(difference**2) / np.mean(want**2)))
