"""Tensor-core attention: eligibility and launch parameters.

It is that of float16 and bfloat16; and of float32 in two parts of bfloat16, whose
products are three, with a precision of float32 products below "highest".

The kernels rely on the fragment layout of matrices in a subgroup, which no standard
defines. So the first call for a dtype on a device runs a self-test against NumPy; a
dtype that fails it takes the kernels without tensor cores.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vkbackend.errors import Error

from ...autotune import autotune
from ...base.device import Device, GpuDevice, on_device_removed
from ...base.dtype import DType, bfloat16, decode, encode, float16, float32
from ...base.shape import Layout, ceil_div
from ...eager.base_tensor import upload
from ...ir.kernel_call import Argument, Dispatch, StridedSpec, fold_grid
from ...ir.lazy_graph import Array, Node, Operand
from ...scheduler.scheduler import run_detached
from ..gemm.tiles import TENSOR_CORES
from ..shader_types import storage_defines
from ..tensor_cores import get_float32_matmul_precision, offers, tested

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...dispatch.primitive import Primitive
    from ...tensor.tensor import Tensor

LANES = 32
"""Subgroup size of the fragment layout that the kernels rely on."""

MOST_HEAD = 128
"""Largest head size that the kernels have registers for."""

EDGE = 16
"""Rows and columns of a cooperative matrix; head sizes are multiples of it."""

WORD = 8
"""Elements of a 16-byte load."""


ATTENTION = "attention"
"""Name of the self-test among those of `tensor_cores`."""

# Self-test: heads, heads of the keys, queries, keys and head size; and the
# largest relative error (root mean square), three times what an NVIDIA H200 makes; of
# float32 what `set_float32_matmul_precision` says.
_TEST = (2, 1, 150, 170, 64)
_ERRORS = {float16: 1e-3, bfloat16: 8e-3, float32: 4e-5}

_test_ops: list[Primitive[..., Any]] = []
_trusted: dict[tuple[Device, DType], bool] = {}
on_device_removed(_trusted.clear)


class AttentionTile(NamedTuple):
    """Tile of an attention workgroup: block of one side, step over the other.

    Attributes
    ----------
    subgroups : int
        Subgroups per workgroup.
    stripes : int
        Stripes of 16 vectors per subgroup.
    span : int
        Vectors of the other side per step.
    in_turn : bool
        Whether queries stay in shared memory and a tile of keys and one of values take
        turns beside them, for fewer registers. Of the forward pass alone.
    stages : int
        Pairs of tiles in shared memory: with 2 one is stored while the other is used.
        Of the forward pass alone, and not with `in_turn`.
    """

    subgroups: int
    stripes: int
    span: int
    in_turn: bool = False
    stages: int = 1

    def shared_memory(self, head: int, dtype: DType = float16) -> int:
        """Return its shared memory in bytes, for a head size and dtype."""
        block = self.subgroups * self.stripes * EDGE
        parts = 2 if dtype is float32 else 1
        own = block // parts if block > 64 else block
        tiles = 2 * self.stages * self.span
        lines = block + self.span if self.in_turn else max(own, tiles)
        return 2 * parts * lines * (head + WORD) + 2 * 4 * self.span

    def fits(self, gpu: DeviceInfo, head: int, dtype: DType = float16) -> bool:
        """Return whether a device has its shared memory and invocations."""
        return (
            self.shared_memory(head, dtype) <= gpu.max_shared_memory
            and self.subgroups * LANES <= gpu.max_workgroup_invocations
        )


KERNELS = {
    "attention/flash": "attention/flash_coopmat",
    "attention/flash_dq": "attention/flash_coopmat_dq",
    "attention/flash_dkv": "attention/flash_coopmat_dkv",
}
"""Tensor-core kernels, by the kernel without tensor cores."""

FORWARD_TILES = (
    AttentionTile(8, 1, 64),
    AttentionTile(8, 1, 32),
    AttentionTile(4, 1, 64),
    AttentionTile(4, 2, 32),
    AttentionTile(4, 2, 64),
    AttentionTile(4, 2, 32, in_turn=True),
    AttentionTile(4, 2, 16, in_turn=True),
    AttentionTile(8, 1, 32, in_turn=True),
    AttentionTile(8, 1, 64, in_turn=True),
    AttentionTile(4, 2, 64, stages=2),
    AttentionTile(4, 2, 32, stages=2),
    AttentionTile(8, 1, 64, stages=2),
    AttentionTile(8, 1, 32, stages=2),
)
"""Tiles of the forward pass to time."""

GRADIENT_TILES = (
    AttentionTile(8, 1, 64),
    AttentionTile(8, 1, 32),
    AttentionTile(8, 1, 16),
    AttentionTile(4, 1, 64),
    AttentionTile(4, 1, 32),
    AttentionTile(4, 2, 32),
    AttentionTile(4, 2, 64),
)
"""Tiles of the gradients to time."""

_WIDE, _WIDE_SHORT = AttentionTile(8, 1, 64), AttentionTile(8, 1, 32)
_DOUBLE, _DOUBLE_SHORT = AttentionTile(4, 2, 64), AttentionTile(4, 2, 32)
_STAGED, _STAGED_SHORT = (AttentionTile(4, 2, n, stages=2) for n in (64, 32))
_IN_TURN = AttentionTile(4, 2, 32, in_turn=True)

TILES: dict[str, dict[int, tuple[AttentionTile, AttentionTile]]] = {
    "attention/flash": {
        64: (_STAGED, _STAGED),
        80: (_STAGED_SHORT, _STAGED_SHORT),
        96: (_STAGED_SHORT, _DOUBLE_SHORT),
        MOST_HEAD: (_IN_TURN, _WIDE),
    },
    "attention/flash_dq": {
        64: (_DOUBLE, _DOUBLE),
        80: (_DOUBLE_SHORT, _DOUBLE_SHORT),
        MOST_HEAD: (_WIDE, _WIDE),
    },
    "attention/flash_dkv": {
        64: (_DOUBLE_SHORT, _DOUBLE_SHORT),
        96: (_WIDE, _WIDE),
        MOST_HEAD: (_WIDE_SHORT, _WIDE),
    },
}
"""By the kernel without tensor cores and the largest head size: without and with
`causal`. `python -m vkbackend.tools.bench.attention_tiles` times others."""


_IN_PARTS = AttentionTile(8, 1, 32)

TILES_OF_FLOAT32: dict[str, dict[int, tuple[AttentionTile, AttentionTile]]] = {
    "attention/flash": {
        64: (_DOUBLE_SHORT, _DOUBLE_SHORT),
        MOST_HEAD: (_IN_PARTS, _IN_PARTS),
    },
    "attention/flash_dq": {MOST_HEAD: (_IN_PARTS, _IN_PARTS)},
    "attention/flash_dkv": {MOST_HEAD: (_IN_PARTS, _IN_PARTS)},
}
"""The same of float32, whose fragments in two parts take twice the registers."""

MOST_HEAD_TOGETHER = 64
"""Largest head size of float32 whose gradients by keys and by values are one dispatch:
of larger ones both do not fit into the registers."""

FLOAT32_ON_TENSOR_CORES = True
"""Whether float32 attention uses tensor cores where the precision allows it."""


def tiles_of(
    kernel: str, dtype: DType, head: int
) -> tuple[AttentionTile, AttentionTile] | None:
    """Return a kernel's tiles for a head size, or None where it has no registers."""
    tiles = TILES_OF_FLOAT32 if dtype is float32 else TILES
    fitting = (pair for most, pair in tiles[kernel].items() if head <= most)
    return next(fitting, None)


def tensor_core_dispatch(
    kernel: str,
    push: dict[str, Argument],
    q: StridedSpec,
    k: StridedSpec,
    v: StridedSpec,
    options: dict[str, int],
) -> Dispatch:
    """Return the tensor-core dispatch in place of a kernel without tensor cores.

    Parameters
    ----------
    kernel : str
        The kernel without tensor cores.
    push : dict of str to Argument
        Its arguments.
    q, k, v : StridedSpec
    options : dict of str to int
        Constants of both kernels.
    """
    batch, heads, queries, head = q.shape
    key_heads, keys = k.shape[1:3]
    tiles = tiles_of(kernel, q.dtype, head)
    assert tiles is not None
    tile = tiles[options["CAUSAL"]]
    words = {
        f"{name}_{label}": stride // WORD
        for name, x in (("q", q), ("k", k), ("v", v))
        for label, stride in zip(("batch", "head", "row"), x.layout.strides)
    }
    by_keys = "grad_k" in push
    block = tile.subgroups * tile.stripes * EDGE
    rows, groups = (keys, key_heads) if by_keys else (queries, heads)
    constants = {"LOCAL_X": tile.subgroups * LANES, "HEAD": head, "SPAN": tile.span}
    constants |= {"STRIPES": tile.stripes} | options
    if tile.in_turn:
        constants["IN_TURN"] = 1
    if tile.stages > 1:
        constants["STAGES"] = tile.stages
    defines = dict(storage_defines(q.dtype))
    if q.dtype is float16:
        defines["DEVICE_ROUNDING"] = "1"
    grid = fold_grid(ceil_div(rows, block) * groups * batch)
    return Dispatch(KERNELS[kernel], grid, push | words, constants, defines)


def apart(dispatch: Dispatch, q: StridedSpec) -> list[Dispatch]:
    """Return gradients by keys and values as two dispatches where one lacks registers.

    Parameters
    ----------
    dispatch : Dispatch
        Of both gradients.
    q : StridedSpec
    """
    on_tensor_cores = dispatch.kernel == KERNELS["attention/flash_dkv"]
    long = q.dtype is float32 and q.shape[3] > MOST_HEAD_TOGETHER
    if not (on_tensor_cores and long):
        return [dispatch]
    constants = dispatch.constants
    return [
        dataclasses.replace(dispatch, constants={**constants, "RESULT": result})
        for result in (1, 2)
    ]


def fits(vectors: Sequence[StridedSpec], scale: float) -> bool:
    """Return whether the kernels support the layout, head size and scale."""
    sizes = {x.shape[3] for x in vectors}
    head = max(sizes)
    equal = len(sizes) == 1 and head % EDGE == 0 and 0 < head <= MOST_HEAD
    return equal and 0.0 < scale < math.inf and all(map(is_16_byte_aligned, vectors))


def uses_tensor_cores(q: Tensor, v: Tensor, scale: float) -> bool:
    """Return whether a call uses tensor cores; its vectors must satisfy `fits`.

    Head sizes are padded; where padding doubles the work or more, it does not.
    """
    sizes = q.layout.shape[3], v.layout.shape[3]
    longest, shortest = max(sizes), min(sizes)
    padded = ceil_div(longest, EDGE) * EDGE
    return (
        padded <= MOST_HEAD
        and 2 * shortest > padded
        and 0.0 < scale < math.inf
        and trusts_tensor_cores(q.device, q.dtype)
    )


def is_16_byte_aligned(x: StridedSpec) -> bool:
    """Return whether the vectors of a tensor are 16-byte aligned."""
    *outer, last = x.layout.strides
    outer = [stride for size, stride in zip(x.shape, outer) if size > 1]
    return last == 1 and not any(step % WORD for step in (x.layout.offset, *outer))


def trusts_tensor_cores(device: Device, dtype: DType) -> bool:
    """Return whether attention of a dtype uses a device's tensor cores."""
    if dtype is float32:
        exact = get_float32_matmul_precision() == "highest"
        if exact or not FLOAT32_ON_TENSOR_CORES:
            return False
    key = device, dtype
    found = _trusted.get(key)
    if found is None:
        factors = bfloat16 if dtype is float32 else dtype
        found = _trusted[key] = (
            dtype in _ERRORS
            and isinstance(device, GpuDevice)
            and _holds(device.gpu.info, dtype)
            and offers(device.gpu.info, factors, TENSOR_CORES)
            and tested(device, dtype, ATTENTION, passes)
        )
    return found


def _holds(gpu: DeviceInfo, dtype: DType) -> bool:
    """Return whether a device has the subgroups and shared memory of the kernels."""
    room = all(
        tile.fits(gpu, longest, dtype)
        for tiles in (TILES_OF_FLOAT32 if dtype is float32 else TILES).values()
        for longest, pair in tiles.items()
        for tile in pair
    )
    operations = gpu.subgroup_shuffle and gpu.subgroup_arithmetic
    return operations and gpu.subgroup_size == LANES and room


def register_test_ops(
    forward: Primitive[..., Any], *gradients: Primitive[..., Any]
) -> None:
    """Set the ops that the self-test runs: attention, and its gradients.

    Ops are declared above this package, so none can be imported here.
    """
    _test_ops[:] = forward, *gradients


def passes(device: GpuDevice, dtype: DType, mode: str = ATTENTION) -> bool:
    """Return whether tensor-core attention and its gradients pass the self-test.

    Parameters
    ----------
    device : GpuDevice
    dtype : DType
        float16, bfloat16 or float32.
    mode : str
        Name of the self-test.
    """
    try:
        return all(error <= _ERRORS[dtype] for error in _errors(device, dtype))
    except Error:
        return False


def _errors(device: GpuDevice, dtype: DType) -> Iterator[float]:
    """Run the self-test on the device; yield the relative errors of results."""
    forward, *gradients = _test_ops
    heads, key_heads, queries, keys, head = _TEST
    random = np.random.default_rng(0)
    sizes = {"q": (heads, queries), "k": (key_heads, keys), "v": (key_heads, keys)}
    given = {
        name: random.standard_normal((1, *size, head)) for name, size in sizes.items()
    }
    given = {name: _rounded(x, dtype) for name, x in given.items()}
    out, logsumexp = yield from _compare(device, dtype, forward, given)
    out = out.swapaxes(1, 2)
    incoming = _rounded(random.standard_normal(out.shape), dtype)
    given |= {"incoming": incoming, "logsumexp": logsumexp}
    given["delta"] = (incoming * out).sum(3)
    for gradient in gradients:
        yield from _compare(device, dtype, gradient, given)


def _rounded(x: np.ndarray, dtype: DType) -> np.ndarray:
    """Return values rounded to the dtype, in float64."""
    return decode(encode(x, dtype), dtype).astype(np.float64)


def _compare(
    device: GpuDevice,
    dtype: DType,
    op: Primitive[..., Any],
    given: dict[str, np.ndarray],
) -> Generator[float, None, tuple[np.ndarray, ...]]:
    """Yield the relative errors of an op's results; return the reference values."""
    options = {"scale": given["q"].shape[3] ** -0.5, "causal": True}
    options |= {"dropout": 0.0, "tensor_cores": True}
    missing = {"mask": None, "seed": None}
    answer = op.rules["reference"](**given, **missing, **options)
    expected = answer if isinstance(answer, tuple) else (answer,)

    def stored(x: np.ndarray) -> DType:
        return dtype if x.ndim == 4 else float32

    node = Node.of(
        op,
        tuple(
            Operand(
                upload(encode(x, stored(x)).reshape(-1), stored(x), device),
                Layout.contiguous(x.shape),
            )
            for x in given.values()
        ),
        tuple(Layout.contiguous(x.shape) for x in expected),
        tuple(stored(x) for x in expected),
        (("tensors", tuple(given)), *options.items()),
    )
    held = [Array(value) for value in node.outputs]
    with autotune.paused():
        run_detached(device, [node])
    for array, wanted in zip(held, expected):
        buffer = array.value.buffer
        assert buffer is not None
        data = np.frombuffer(device.gpu.read(buffer), stored(wanted).storage)  # type: ignore[arg-type]  # a Buffer
        found = decode(data, stored(wanted)).reshape(wanted.shape).astype(np.float64)
        yield float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2)))
    return expected
