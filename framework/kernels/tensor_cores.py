"""Tensor-core settings of GEMM precision, and the self-test that enables them.

A driver may list cooperative matrices and get them wrong, or be slower with them than
without. So the first GEMM of a dtype on a device runs a self-test: a GEMM of 1024 rows
against NumPy, and its time against that of the SIMT kernel. A device and driver that
passed are trusted by later processes; see `autotune`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from vkbackend import Verdict
from vkbackend.errors import Error

from ..autotune import autotune
from ..base import trace_hooks
from ..base.device import Device, GpuDevice, change_setting, on_device_removed
from ..base.dtype import DType, bfloat16, decode, encode, float16, float32, int8, int32
from ..base.shape import Layout
from ..eager.base_tensor import evaluate, upload
from ..ir.lazy_graph import Array, Node, Operand
from ..scheduler.executor import seconds_of
from ..scheduler.scheduler import run_detached
from .gemm.tiles import (
    DP4A,
    FP16_ACCUMULATE,
    INT8_TENSOR_CORES,
    SCALED_FLOAT16,
    SIMT,
    TENSOR_CORES,
    int8_matrix_depth,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..dispatch.op import Op

PRECISIONS = ("highest", "high", "medium")

_TEST_SIZE = 1024
_TEST_ROWS = 16

# Largest relative errors that the self-test accepts: of sums by mode, about twice those
# measured on an NVIDIA H200, and of results by dtype, the rounding of one.
_SUM_ERRORS = {
    TENSOR_CORES: 3e-6,
    FP16_ACCUMULATE: 5e-3,
    SCALED_FLOAT16: 6e-4,
    INT8_TENSOR_CORES: 0.0,
}
_ROUNDINGS = {float32: 0.0, float16: 2**-11, bfloat16: 2**-8, int8: 0.0}

# Accepted slowdown of the tensor-core GEMM against SIMT, for times are noisy.
_SLOWER = 1.5

Test = Callable[[GpuDevice, DType, str], bool]

_settings = {"float32": "highest", "float16": False, "tested": True}
_modes: dict[tuple[Device, DType], str] = {}
_verdicts: dict[tuple[Device, DType, str], bool] = {}
_test_ops: dict[DType, Op[..., Any]] = {}
on_device_removed(_modes.clear)
on_device_removed(_verdicts.clear)


def register_test_op(op: Op[..., Any], *dtypes: DType) -> None:
    """Set the product that the self-test of some dtypes runs.

    Ops are declared above this package, so none can be imported here. It takes (batch,
    rows, depth) as `a`, (batch, depth, columns) as `b`, and the `mode`.
    """
    _test_ops.update(dict.fromkeys(dtypes, op))


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how exactly float32 products, convolutions and attention are computed.

    Parameters
    ----------
    precision : str
        "highest", the default: float32 multiplication and accumulation. Convolutions of
        many channels with 3 or 5 to 9 taps in a direction and a stride of 1, and their
        gradients, may run by Winograd's minimal filtering, with relative errors (root
        mean square) two to three times those of sums in order, 8e-7 of 64 channels and
        3 by 3 taps, and with 5 by 5 taps five times, 3.2e-6; an infinity or NaN then
        makes NaN of whole tiles of 4 by 4 results. "high": large GEMMs, implicit ones
        of convolutions among them, run on tensor cores with 11 bits of each number, as
        many as TF32 has; relative errors (root mean square) are about 3e-4. The numbers
        are rounded to float16 after scaling by a power of two, one for each row of the
        left operand, column of the right one, image or filter: none overflows, and what
        is below 2^-29 of the largest of its row loses bits. Of convolutions an infinity
        may become NaN.
        Attention splits each number into a pair of bfloat16 (bf16x3), with relative
        errors below 4e-5; an infinity becomes NaN there. "medium" is as "high".

    Raises
    ------
    ValueError
        If `precision` is none of them.

    Notes
    -----
    It is one for all threads. Ops called before a change keep the precision that they
    were called with. Within `jit` it cannot be changed.
    """
    if precision not in PRECISIONS:
        raise ValueError(
            f"set_float32_matmul_precision: {precision!r} is no precision; use"
            f" {' or '.join(map(repr, PRECISIONS))}"
        )
    _change("float32", precision)


def get_float32_matmul_precision() -> str:
    """Return the precision that `set_float32_matmul_precision` has chosen."""
    return str(_settings["float32"])


def allow_float16_accumulation(allowed: bool) -> None:
    """Choose whether float16 GEMMs may accumulate in float16, which is faster.

    Relative errors are then about 2e-3 at K = 4096, and sums beyond 65504 become
    infinite. Not allowed by default.

    Parameters
    ----------
    allowed : bool
        For every device, from the next GEMM on.
    """
    _change("float16", bool(allowed))


def _change(name: str, value: str | bool) -> None:
    before = _settings[name]
    if value == before:
        return
    trace_hooks.refuse(
        "the precision of products is set, which a replay does not repeat"
    )
    # Kernels are chosen when a graph is submitted: what is pending keeps its precision.
    evaluate()
    change_setting(f"precision of {name} products", before, value)
    _settings[name] = value
    _modes.clear()


def product_mode(device: Device, dtype: DType) -> str:
    """Return the GEMM mode of a dtype on a device: see `gemm.select`."""
    found = _modes.get((device, dtype))
    if found is None:
        found = _modes[device, dtype] = _mode(device, dtype)
    return found


def convolution_mode(device: Device, dtype: DType) -> str:
    """Return the GEMM mode of convolutions of a dtype: see `conv.implicit_gemm`."""
    if dtype is float32:
        return product_mode(device, dtype)
    on_units = dtype in (float16, bfloat16) and _trusts(device, dtype, TENSOR_CORES)
    return TENSOR_CORES if on_units else SIMT


def passed(gpu: DeviceInfo, dtype: DType, mode: str) -> bool:
    """Return whether a cached result says that a mode passed its self-test."""
    verdict = autotune.verdicts(gpu).get(_question(dtype, mode))
    return verdict is not None and verdict.choice == mode


def integer_mode(device: Device) -> str:
    """Return the GEMM mode of int8 with int32 accumulation on a device."""
    return INT8_TENSOR_CORES if _trusts(device, int8, INT8_TENSOR_CORES) else DP4A


def _mode(device: Device, dtype: DType) -> str:
    modes = (mode for mode in _wanted(dtype) if _trusts(device, dtype, mode))
    return next(modes, SIMT)


def _trusts(device: Device, dtype: DType, mode: str) -> bool:
    """Return whether a device offers a mode and passed its self-test."""
    key = device, dtype, mode
    found = _verdicts.get(key)
    if found is None:
        found = _verdicts[key] = (
            isinstance(device, GpuDevice)
            and offers(device.gpu.info, dtype, mode)
            and tested(device, dtype, mode, _passes)
        )
    return found


@contextlib.contextmanager
def without_tests() -> Iterator[None]:
    """Take every mode that is offered for correct within, and run no self-test.

    For kernels that are chosen and not run. Verdicts that were found before are kept.
    """
    _settings["tested"] = False
    try:
        yield
    finally:
        _settings["tested"] = True


def tested(device: GpuDevice, dtype: DType, mode: str, test: Test) -> bool:
    """Return whether a mode passes a self-test, or did so in an earlier process."""
    if not _settings["tested"]:
        return True
    kept = autotune.settings().kept
    if kept and passed(device.gpu.info, dtype, mode):
        return True
    passes = test(device, dtype, mode)
    # A failure may be due to a busy device: it is not cached.
    if passes and kept:
        table = autotune.verdicts(device.gpu.info)
        table.keep(_question(dtype, mode), Verdict(mode, {}))
    return passes


def _question(dtype: DType, mode: str) -> str:
    return f"tensor cores {dtype.name} {mode}"


def _wanted(dtype: DType) -> tuple[str, ...]:
    if dtype is float32:
        return () if _settings["float32"] == "highest" else (SCALED_FLOAT16,)
    if dtype is float16 and _settings["float16"]:
        return FP16_ACCUMULATE, TENSOR_CORES
    return (TENSOR_CORES,) if dtype in (float16, bfloat16) else ()


def offers(gpu: DeviceInfo, dtype: DType, mode: str) -> bool:
    """Return whether a device lists the cooperative matrices and features of a mode."""
    flags = {"vulkan_memory_model", "subgroup_size_control"}
    flags |= {"full_subgroups", "cooperative_matrices"}
    if mode == INT8_TENSOR_CORES:
        flags |= {"storage_8bit", "shader_int8"}
        return flags <= gpu.supported and int8_matrix_depth(gpu) > 0
    factors = "float16" if mode == SCALED_FLOAT16 else dtype.name
    sums = "float16" if mode == FP16_ACCUMULATE else "float32"
    flags |= {"storage_16bit"}
    if factors == "bfloat16":
        flags |= {"bfloat16", "bfloat16_cooperative_matrix"}
    else:
        flags |= {"shader_float16"}
    return flags <= gpu.supported and any(
        (row.m, row.n, row.k) == (16, 16, 16)
        and (row.a, row.b, row.c, row.result) == (factors, factors, sums, sums)
        and row.scope == "subgroup"
        and not row.saturating
        for row in gpu.cooperative_matrix
    )


def _passes(device: GpuDevice, dtype: DType, mode: str) -> bool:
    """Return whether a mode is correct on a device and no slower than SIMT."""
    random = np.random.default_rng(0)
    shape = 1, _TEST_SIZE, _TEST_SIZE
    largest = 127 if dtype is int8 else 1
    a, b = (
        random.uniform(-largest, largest, shape).astype(dtype.numpy) for _ in range(2)
    )
    operands = tuple(
        Operand(
            upload(encode(x, dtype).reshape(-1), dtype, device),
            Layout.contiguous(x.shape),
        )
        for x in (a, b)
    )
    without = DP4A if dtype is int8 else SIMT
    try:
        out, seconds = _timed(device, operands, dtype, mode)
        _, seconds_without = _timed(device, operands, dtype, without)
    except Error:
        return False
    exact = (decode(encode(x, dtype), dtype).astype(np.float64) for x in (a, b))
    left, right = exact
    want = left[0, :: _TEST_SIZE // _TEST_ROWS] @ right[0]
    got = out.reshape(a.shape)[0, :: _TEST_SIZE // _TEST_ROWS]
    error = np.sqrt(np.mean((got - want) ** 2) / np.mean(want**2))
    bound = _SUM_ERRORS[mode] + _ROUNDINGS[dtype]
    return bool(error <= bound and seconds <= _SLOWER * seconds_without)


def _timed(
    device: GpuDevice, operands: tuple[Operand, ...], dtype: DType, mode: str
) -> tuple[np.ndarray, float]:
    """Return the result of a GEMM, and the shortest of a few timings."""
    layout = Layout.contiguous((1, _TEST_SIZE, _TEST_SIZE))
    params = (("tensors", ("a", "b")), ("mode", mode))
    result = int32 if dtype is int8 else dtype
    node = Node.of(_test_ops[dtype], operands, (layout,), (result,), params)
    held = Array(node.outputs[0])
    with autotune.paused():
        shortest = min(
            seconds_of(device.gpu, lambda: run_detached(device, [node]))
            for _ in range(4)
        )
    buffer = held.value.buffer
    assert buffer is not None
    data = np.frombuffer(device.gpu.read(buffer), result.storage)  # type: ignore[arg-type]  # a Buffer
    return decode(data, result).astype(np.float64), shortest
