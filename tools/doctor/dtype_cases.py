"""Dtype cases of the self-tests: values, NumPy references, required features."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class StorageCase:
    """Dtype case: the storage type of a kernel, and the type that it computes in.

    Parameters
    ----------
    stored, computed : str
        GLSL types.
    dtype : str
        NumPy's name for what is stored; bfloat16 is stored as uint16 here.
    needs : tuple of str
        Features that the device must have.
    lanes : int, default 1
        Elements of a vector.
    """

    stored: str
    computed: str
    dtype: str
    needs: tuple[str, ...] = ()
    lanes: int = 1

    def values(self, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return `count` values x and 3 * x + 1, as the kernel computes it."""
        rng = np.random.default_rng(2)
        if self.stored == "bfloat16_t":
            exact = np.arange(count) % 64
            return to_bfloat16(exact), to_bfloat16(exact * 3 + 1)
        dtype = np.dtype(self.dtype)
        if dtype.kind == "f":
            x = (np.arange(count) % 64).astype(dtype)
            # Digits that float32 would lose.
            x += dtype.type(2.0**-30) if dtype.itemsize == 8 else dtype.type(0)
        else:
            bounds = np.iinfo(dtype)
            shape = (count, self.lanes)
            x = rng.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        with np.errstate(over="ignore"):
            return x, x * dtype.type(3) + dtype.type(1)


STORAGE_CASES = {
    "8 bits": StorageCase("uint8_t", "uint", "uint8", ("storage_8bit",)),
    "16 bits": StorageCase("uint16_t", "uint", "uint16", ("storage_16bit",)),
    "32 bits": StorageCase("uint", "uint", "uint32"),
    "64 bits": StorageCase("uint64_t", "uint64_t", "uint64", ("shader_int64",)),
    "128 bits": StorageCase("uvec4", "uvec4", "uint32", lanes=4),
    "int8": StorageCase("int8_t", "int8_t", "int8", ("storage_8bit", "shader_int8")),
    "int16": StorageCase(
        "int16_t", "int16_t", "int16", ("storage_16bit", "shader_int16")
    ),
    "float16": StorageCase(
        "float16_t", "float16_t", "float16", ("storage_16bit", "shader_float16")
    ),
    "bfloat16": StorageCase(
        "bfloat16_t", "float", "uint16", ("storage_16bit", "bfloat16")
    ),
    "float64": StorageCase("double", "double", "float64", ("shader_float64",)),
}


def to_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bits of numbers that are exact in bfloat16."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (bits >> np.uint32(16)).astype(np.uint16)


_MATRIX_TYPES = {
    "float16": "float16_t",
    "float32": "float",
    "float64": "double",
    "bfloat16": "bfloat16_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint",
}


def matrix_name(shape: dict[str, Any]) -> str:
    """Return what to call a shape of `DeviceInfo.cooperative_matrix`."""
    size = f"{shape['m']}x{shape['n']}x{shape['k']}"
    saturating = " saturating" if shape["saturating"] else ""
    return f"matrix {size} {shape['a']} to {shape['result']}{saturating}"


def unknown_matrix(shape: dict[str, Any]) -> str:
    """Return why a shape cannot be tried, or an empty string."""
    names = [shape[key] for key in ("a", "b", "c", "result")]
    unknown = [name for name in names if name not in _MATRIX_TYPES]
    if unknown:
        return f"no kernel for {unknown[0]}"
    if shape["scope"] != "subgroup":
        return f"no kernel for the scope {shape['scope']}"
    if shape["c"] != shape["result"]:
        return f"no kernel that adds {shape['c']} and gives {shape['result']}"
    return "no kernel that saturates" if shape["saturating"] else ""


def matrix_defines(shape: dict[str, Any]) -> dict[str, str]:
    """Return the macros of `kernels.MATRIX`."""
    types = {f"{k.upper()}_TYPE": _MATRIX_TYPES[shape[k]] for k in ("a", "b", "c")}
    return types | {k.upper(): str(shape[k]) for k in ("m", "n", "k")}


def matrix_values(shape: dict[str, Any]) -> tuple[NDArray[Any], ...]:
    """Return a, b, c and a @ b + c in whole numbers, which every type has exactly."""
    rng = np.random.default_rng(3)
    m, n, k = shape["m"], shape["n"], shape["k"]
    # Unsigned types have no -1; sums stay below 256, which bfloat16 still has.
    lowest = 0 if shape["a"].startswith("u") or shape["b"].startswith("u") else -1
    a, b = rng.integers(lowest, 2, (m, k)), rng.integers(lowest, 2, (k, n))
    c = rng.integers(0, 3, (m, n)) + k
    pairs = ((a, "a"), (b, "b"), (c, "c"), (a @ b + c, "c"))
    return tuple(_as(values, shape[key]) for values, key in pairs)


def _as(values: NDArray[Any], name: str) -> NDArray[Any]:
    return to_bfloat16(values) if name == "bfloat16" else values.astype(name)
