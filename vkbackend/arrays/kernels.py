"""Kernel selection for the operations of a `CommandBatch`; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vkbackend.driver.device_info import DeviceInfo

ELEMENT_OPERATIONS = ("relu", "sigmoid", "tanh", "swish", "gelu", "scale")
"""Functions of one element, as `glsl/arrays/unary.comp` numbers them."""

PAIR_OPERATIONS = ("add", "sub", "mul", "div")
"""Functions of two elements, as `glsl/arrays/binary.comp` numbers them."""

_WORKGROUP = 256
_ROW_WORKGROUP = 64
_DOT_WORKGROUP = 128
_DOT_ROUNDS = 16
_MAX_GEMV_ROWS = 8
_MIN_GEMV_ELEMENTS = 1 << 16
_VECTOR_BYTES = 16
_ACROSS = 4  # adjacent vectors of a workgroup; its lanes split K
DOT_CHUNK = _DOT_WORKGROUP * _DOT_ROUNDS
"""Elements that become one sum in one stage of a dot product."""

MAX_ROUNDS = 32768
"""Rounds of loops that are safe everywhere: Mesa before 23 ends loops after 65,535."""

MAX_WORKGROUPS = 65535
"""Workgroups that every device takes along x or y."""


@dataclass(frozen=True)
class Run:
    """Launch of one kernel: grid, addresses, scalars and constants.

    Parameters
    ----------
    kernel : str
        Name under `glsl/`.
    groups : tuple of int
        Workgroups in x, y and z.
    memory : mapping of str to str
        For each address the kernel takes, what it is of: "x", "y", "out", or a name in
        `scratch`.
    scalars : mapping of str to number
        The kernel's other arguments.
    constants : mapping of str to int
        Specialization constants.
    defines : mapping of str to str
        Macros.
    scratch : mapping of str to int
        Scratch of the operation, in bytes, that this launch is the first to use.
    """

    kernel: str
    groups: tuple[int, int, int]
    memory: Mapping[str, str]
    scalars: Mapping[str, int | float]
    constants: Mapping[str, int]
    defines: Mapping[str, str]
    scratch: Mapping[str, int] = field(default_factory=dict)


def element_run(operation: str, count: int, half: bool, factor: float) -> Run:
    """Return the run of one of `ELEMENT_OPERATIONS`; `half` says float16."""
    return Run(
        "arrays/unary",
        _grid(-(-count // _WORKGROUP)),
        {"x": "x", "out_": "out"},
        {"count": count, "factor": factor},
        {"LOCAL_X": _WORKGROUP, "OPERATION": ELEMENT_OPERATIONS.index(operation)},
        _defines(half),
    )


def pair_run(operation: str, count: int, half: bool) -> Run:
    """Return the run of one of `PAIR_OPERATIONS`; `half` says float16."""
    return Run(
        "arrays/binary",
        _grid(-(-count // _WORKGROUP)),
        {"x": "x", "y": "y", "out_": "out"},
        {"count": count},
        {"LOCAL_X": _WORKGROUP, "OPERATION": PAIR_OPERATIONS.index(operation)},
        _defines(half),
    )


def dot_runs(count: int, half: bool) -> list[Run]:
    """Return the stages of a dot product: sums of `DOT_CHUNK` elements, then of those.

    They end when one is left; sums between stages are float32.
    """
    runs: list[Run] = []
    source = "x"
    while True:
        sums = -(-count // DOT_CHUNK)
        out = "out" if sums == 1 else f"sums{len(runs)}"
        defines = dict(_defines(half))
        if half:
            defines |= {"IN_ACC": "1"} if runs else {}
            defines |= {"OUT_ACC": "1"} if sums > 1 else {}
        run = Run(
            "arrays/dot",
            _grid(sums),
            {"x": source, "y": source if runs else "y", "out_": out},
            {"count": count},
            {
                "LOCAL_X": _DOT_WORKGROUP,
                "ROUNDS": _DOT_ROUNDS,
                "PRODUCTS": int(not runs),
            },
            defines,
            {} if sums == 1 else {out: 4 * sums},
        )
        runs.append(run)
        if sums == 1:
            return runs
        source, count = out, sums


def matmul_run(info: DeviceInfo, m: int, k: int, n: int, half: bool) -> Run:
    """Return the GEMM or skinny GEMM run of (m, k) by (k, n)."""
    vector = _VECTOR_BYTES // (2 if half else 4)
    is_aligned = n % vector == 0 and k % vector == 0
    is_skinny = m <= _MAX_GEMV_ROWS and is_aligned and k * n >= _MIN_GEMV_ELEMENTS
    if is_skinny and info.target.vec4_loads:
        return _gemv_run(m, k, n, vector, half)
    if info.target.broadcasts_registers:
        # Subgroup tiles broadcast elements: a software device is bound by loads.
        kernel, lanes = "matmul/gemm_subgroup", info.subgroup_size
        rows = 32 if m > 32 else 8
        tile = rows, 2 * lanes
        constants = {"LOCAL_X": lanes, "ROWS": rows, "COLUMNS": 2}
    else:
        kernel = "matmul/gemm_tiled"
        size, depth, quads = (64, 8, 2) if m > 32 and n > 32 else (16, 16, 1)
        tile = size, size
        constants = {"LOCAL_X": size * size // (16 * quads * quads), "A_ALONG_K": 1}
        constants |= {"BLOCK_M": size, "BLOCK_N": size, "BLOCK_K": depth}
        constants |= {"QUADS_M": quads, "QUADS_N": quads, "B_ALONG_K": 0}
    scalars = {"m": m, "n": n, "k": k, "batches": 1, "a_batch": 0, "b_batch": 0}
    scalars |= {"a_row": k, "a_column": 1, "b_row": n, "b_column": 1}
    groups = _grid(-(-m // tile[0]) * -(-n // tile[1]))
    memory = {"a": "x", "b": "y", "out_": "out"}
    return Run(kernel, groups, memory, scalars, constants, _defines(half))


def _gemv_run(m: int, k: int, n: int, vector: int, half: bool) -> Run:
    """Return a GEMV run: the matrix is read once, in vectors of 16 bytes."""
    scalars = {"n": n, "k": k, "batches": 1, "x_row": k, "x_column": 1, "x_batch": 0}
    scalars |= {"line": n // vector, "matrix_batch": 0}
    scalars |= {"out_row": n, "out_column": 1, "out_batch": 0}
    constants = {"LOCAL_X": _WORKGROUP, "ROWS": m, "ACROSS": _ACROSS, "ALONG_K": 0}
    constants["X_VECTORS"] = 1
    groups = _grid(-(-n // (_ACROSS * vector)))
    memory = {"x": "x", "matrix": "y", "out_": "out"}
    return Run("matmul/gemv", groups, memory, scalars, constants, _defines(half))


def softmax_run(rows: int, columns: int, half: bool) -> Run:
    """Return the run of a softmax over each row."""
    return Run(
        "norm/softmax",
        _grid(rows),
        {"x": "x", "out_": "out"},
        {"rows": rows, "count": columns, "inner": 1},
        _ROW,
        _defines(half),
    )


def norm_run(rows: int, columns: int, half: bool, eps: float, centred: bool) -> Run:
    """Return the run of a layer norm of each row; if not `centred`, an RMS norm."""
    return Run(
        "norm/layer_norm",
        _grid(rows),
        {
            "x": "x",
            "weight": "x",
            "bias": "x",
            "out_": "out",
            "mean": "mean",
            "inverse_std": "inverse_std",
        },
        {"rows": rows, "count": columns, "eps": eps},
        {**_ROW, "CENTRED": int(centred)},
        _defines(half),
        {"mean": 4 * rows, "inverse_std": 4 * rows},
    )


_ROW = {"LOCAL_X": _ROW_WORKGROUP, "GROUP": _ROW_WORKGROUP}

MAX_COLUMNS = MAX_ROUNDS // 3 * _ROW_WORKGROUP
"""Columns of a row that one workgroup reads three times within `MAX_ROUNDS`."""


def _defines(half: bool) -> dict[str, str]:
    return {"DTYPE": "DTYPE_FLOAT16"} if half else {}


def _grid(groups: int) -> tuple[int, int, int]:
    """Return a grid of at least `groups` workgroups, in x and then y."""
    rows = max(1, -(-groups // MAX_WORKGROUPS))
    return -(-groups // rows), rows, 1
