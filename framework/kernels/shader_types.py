"""Element-type macros of shaders: storage type T and accumulator type ACC.

`glsl/lib/dtype.glsl` defines both from them. Small elements then need a device feature
that shaders of whole words, such as the fused ones, do without.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import FLOAT, FLOAT8, DType, float16, float32, float64, int64
from ..base.errors import DTypeError
from ..base.quantized_format import INT4, QuantizedFormat
from ..base.shape import TensorSpec

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor


def storage_defines(
    dtype: DType, *, in_acc: bool = False, out_acc: bool = False
) -> Mapping[str, str]:
    """Return the macros that choose the dtype of `lib/dtype.glsl`.

    `in_acc` and `out_acc` make the shader's In, or Out, ACC in memory: partial sums.
    """
    # What takes 8-bit floats moves them alone.
    name = "uint8" if dtype in FLOAT8 else dtype.name
    defines = {} if dtype is float32 else {"DTYPE": f"DTYPE_{name.upper()}"}
    if acc_size(dtype) != dtype.itemsize:
        defines |= {"IN_ACC": "1"} if in_acc else {}
        defines |= {"OUT_ACC": "1"} if out_acc else {}
    return defines


def format_defines(kind: QuantizedFormat) -> Mapping[str, str]:
    """Return the macro that chooses the format of `quantized/format.glsl`."""
    return {"FORMAT": f"FORMAT_{kind.family.upper()}"}


def decoded_defines(dtype: DType) -> Mapping[str, str]:
    """Return the macros with which a device rounds decoded weights.

    Those of tensor cores alone: where they have float16, a device rounds to it.
    """
    return {"DEVICE_ROUNDING": "1"} if dtype is float16 else {}


def group_constant(kind: QuantizedFormat) -> Mapping[str, int]:
    """Return the specialization constant of a format, if it has one."""
    return {"GROUP": kind.block} if kind.family == INT4 else {}


def place_defines(dtype: DType) -> Mapping[str, str]:
    """Return the macro of `lib/place_buffers.glsl` for int32 or int64 positions."""
    return {"WIDE_PLACES": "1"} if dtype is int64 else {}


def shuffle_defines(
    gpu: DeviceInfo, defines: Mapping[str, str], workgroup: int
) -> Mapping[str, str]:
    """Return the macro that makes subgroups of a GPU merge states by shuffles.

    Parameters
    ----------
    gpu : DeviceInfo
    defines : mapping of str to str
        The shader's other macros; 64-bit states would need one more feature.
    workgroup : int
        Invocations; subgroups must be full.
    """
    wide = "WIDE" in defines or defines.get("DTYPE", "").endswith("64")
    full = workgroup % gpu.max_subgroup_size == 0
    return {"SHUFFLES": "1"} if gpu.target.fast_shuffles and full and not wide else {}


def full_subgroup(gpu: DeviceInfo, workgroup: int) -> int:
    """Return the size of the subgroups that are to shuffle, or 0.

    Parameters
    ----------
    gpu : DeviceInfo
    workgroup : int
        Invocations; its subgroups must be full, and have one size whatever the shader.
    """
    size = gpu.subgroup_size
    alike = gpu.min_subgroup_size == gpu.max_subgroup_size == size
    return size if gpu.target.fast_shuffles and alike and workgroup % size == 0 else 0


def acc_size(dtype: DType) -> int:
    """Return the bytes of one ACC, the type of partial sums."""
    return max(4, dtype.itemsize)


def statistic_dtype(dtype: DType) -> DType:
    """Return the dtype of a float's statistics, which is ACC in `lib/dtype.glsl`."""
    return float64 if dtype is float64 else float32


def check_float(name: str, x: TensorSpec | Tensor) -> None:
    """Raise `DTypeError` if `x` is not of a float dtype."""
    if not x.dtype.is_float:
        raise DTypeError(
            f"{name}: `x` is {x.dtype.name}; accepted:"
            f" {', '.join(dtype.name for dtype in FLOAT)}; call x.float() first"
        )


def check_same_dtype(name: str, **operands: TensorSpec | None) -> None:
    """Raise `DTypeError` if operands that a shader reads as one dtype differ in it."""
    present = {key: spec for key, spec in operands.items() if spec is not None}
    if len({spec.dtype for spec in present.values()}) > 1:
        said = ", ".join(f"{key} is {spec.dtype.name}" for key, spec in present.items())
        raise DTypeError(f"{name}: {said}; they must be the same")
