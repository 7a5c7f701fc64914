"""Kernels of linear algebra: triangular systems, Cholesky factors, LU of panels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import DType, float32, float64
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    Dispatch,
    Scratch,
    StridedSpec,
    divisor,
    fold_grid,
)
from .linear import linear_dispatch
from .row_copy import VECTOR, first_copy
from .shader_types import full_subgroup

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

EDGE = 32
"""Rows of a block, and columns of a workgroup, of `linalg/triangular_solve` and of
`linalg/solve_step`."""

WORKGROUP = 256

TILE = 64
"""Rows and columns of a workgroup of `linalg/lu_update`."""

SMALL = {float32: 64, float64: 48}
"""Rows of the largest matrix of `linalg/cholesky`, in up to 19 KiB of shared memory."""

SMALL_WORKGROUP = 64
"""Invocations of `linalg/cholesky`, each of which has a row."""

MOST_IN_SHARED = {float32: 48, float64: 32}
"""Rows of the largest matrices of `linalg/eigh`, `qr`, `svd`, `small_solve` and
`matrix_exp`."""

TILES = {float32: 64, float64: 32}
"""Rows of a step of `linalg/solve_step`, and those behind that a workgroup of it takes,
or one of `linalg/cholesky_step`, and rows and columns of its tiles."""

MOST_IN_REGISTERS = 16
"""Rows of the largest matrices of `linalg/triangular_rows`."""

STEPPED = 256
"""Workgroups of `linalg/triangular_solve` below which a system is solved in steps, each
of which spreads the rows behind it over the device."""

MOST_AT_ONCE = 256
"""Rows of a system up to which one launch is no slower than steps: with 3 right-hand
sides 128 rows take 19 us, in steps 28; 256 take 43 and 46; 512 take 130 and 83 (NVIDIA
H200, 580.159.04, 2026-11-30)."""

TAYLOR = {float32: (16, 2.478), float64: (20, 1.438)}
"""Degrees of Taylor sums of exponentials of small matrices, and norms up to which what
is left out is a backward error below the rounding. Each squaring saved is an error that
is not doubled. Source: Higham, "The scaling and squaring method for the matrix
exponential revisited", SIAM Journal on Matrix Analysis and Applications 26, 2005,
section 2."""

TAYLOR_BOUNDS = {
    float32: {
        1: 1.192092800768788e-07,
        2: 5.978858893805233e-04,
        4: 5.116619363445086e-02,
        8: 5.800524627688768e-01,
        12: 1.461661507209034,
        18: 3.010066362817634,
    },
    float64: {
        1: 2.220446049250313e-16,
        2: 2.580956802971767e-08,
        4: 3.397168839976962e-04,
        8: 4.991228871115323e-02,
        12: 2.996158913811580e-01,
        18: 1.090863719290036,
    },
}
"""Norms up to which Taylor polynomials of these degrees are exponentials of matrices
with a backward error below the rounding. Source: Bader, Blanes and Casas, "Computing
the matrix exponential with an optimized Taylor polynomial approximation", Mathematics
7, 2019, table 1."""

QR_WORKGROUP = 256
"""Invocations of `linalg/qr_panel`: of more there are more partial sums."""

QR_HELD = {float32: 128, float64: 64}
"""Elements in registers of an invocation of `linalg/qr_panel`."""

QR_ROWS, QR_LEAST = 8, 4
"""Rows of an invocation by which the columns of a panel are reckoned, at least, and
columns of the narrowest panels."""

QR_PANELS = 4
"""Panels of the blocks whose reflections are applied together."""

QR_GROUPS, QR_PART = 320, 128
"""Workgroups of `linalg/qr_gram` up to which rows are split in parts, and the fewest
rows of a part."""

QR_EDGE = 16
"""Columns of a workgroup of `linalg/qr_solve`."""

MOST_ORDERED = 4096
"""Rows of the largest matrices of `linalg/pivot_order`, in shared memory."""

INVOCATIONS = (8, 32), (16, 64), (24, 128)
"""Rows of small matrices up to which fewer invocations than `WORKGROUP` take one."""

MOST_SHARED = 24 << 10
"""Bytes of shared memory that the kernels take."""

PANELS = {float32: (32, 16), float64: (16, 16)}
"""Columns of a panel of `linalg/lu_panel`, of matrices of up to `WIDE_PANELS` rows and
of others: of more each step takes longer, of fewer there are more launches."""

WIDE_PANELS = 512

PANEL_ROWS = {32: 1, 16: 4}
"""Rows of an invocation by columns, where a workgroup of `LEAST_PANEL` has too few."""

LEAST_PANEL = 256

PANEL_WORKGROUP = 1024

ROW_WORKGROUP = 64
"""Invocations of `linalg/lu_rows`, each of which has a column."""

MOST_PANEL_ROWS = 8
"""Rows of an invocation of `linalg/lu_panel`, whose loops over them are unrolled."""


def has_kernels(gpu: DeviceInfo, dtype: DType) -> bool:
    """Return whether a device has the kernels, for small matrices of any number."""
    return (
        (dtype is float32 or (dtype is float64 and gpu.shader_float64))
        and gpu.max_workgroup_invocations >= WORKGROUP
        and gpu.max_shared_memory >= MOST_SHARED
    )


def solves_triangles(
    gpu: DeviceInfo, dtype: DType, matrices: int, columns: int
) -> bool:
    """Return whether a device has the kernels, for so many matrices and columns."""
    fits = max(matrices, ceil_div(columns, EDGE)) <= MAX_GROUPS
    return fits and has_kernels(gpu, dtype)


def _invocations(rows: int) -> int:
    """Return the invocations that share a small matrix: few wait for few."""
    return next((size for most, size in INVOCATIONS if rows <= most), WORKGROUP)


def factorises(gpu: DeviceInfo, rows: int) -> bool:
    """Return whether `linalg/lu_panel` takes panels of so many rows."""
    most = min(PANEL_WORKGROUP, gpu.max_workgroup_invocations)
    return rows <= most * MOST_PANEL_ROWS


def _defines(dtype: DType) -> dict[str, str]:
    return {"DOUBLE": "1"} if dtype is float64 else {}


def triangular_dispatches(
    a: TensorSpec, b: TensorSpec, upper: bool, unit: bool
) -> list[Dispatch]:
    """Return the dispatches that solve A X = B, of (matrices, n, n) and (..., k)."""
    matrices, n, columns = b.shape
    if n <= MOST_IN_REGISTERS:
        return [_small_triangular_dispatch(b, upper, unit)]
    few = matrices * ceil_div(columns, EDGE) < STEPPED
    if n > MOST_AT_ONCE and few:
        return _steps("a", b, _Substitution(upper, unit), "b", 1, _left(b), "out")
    push: dict[str, Argument] = {"a": "a", "b": "b", "out_": "out"}
    push |= {"n": n, "columns": columns}
    constants = {"LOCAL_X": WORKGROUP, "UPPER": int(upper), "UNIT": int(unit)}
    grid = ceil_div(columns, EDGE), 1, matrices
    defines = _defines(a.dtype)
    return [Dispatch("linalg/triangular_solve", grid, push, constants, defines)]


def _small_triangular_dispatch(b: TensorSpec, upper: bool, unit: bool) -> Dispatch:
    """Return the dispatch that solves with a column in an invocation's registers."""
    matrices, n, columns = b.shape
    numel, rows = matrices * columns, max(4, 1 << (n - 1).bit_length())
    push: dict[str, Argument] = {"a": "a", "b": "b", "out_": "out"}
    push |= {"numel": numel, "n": n, "columns": columns}
    push["magic"], push["shift"] = divisor(columns)
    constants = {"UPPER": int(upper), "UNIT": int(unit)}
    defines = {"ROWS": str(rows), **_defines(b.dtype)}
    return linear_dispatch("linalg/triangular_rows", numel, push, constants, defines)


class _Substitution(NamedTuple):
    """Which triangle of a matrix, or of its transpose, is substituted."""

    upper: bool
    unit: bool
    transposed: bool = False


def _left(b: TensorSpec) -> Scratch:
    """Return memory for what is left of right-hand sides."""
    return Scratch("left", b.numel * b.dtype.itemsize)


def _steps(
    a: str,
    b: TensorSpec,
    kind: _Substitution,
    given: str,
    source: int,
    rest: Argument,
    out: Argument,
    target: int = 0,
) -> list[Dispatch]:
    """Return a dispatch for each step of a substitution; see the shader."""
    matrices, n, columns = b.shape
    tile = TILES[b.dtype]
    ordered = "order" if source > 1 or target else a
    push: dict[str, Argument] = {"a": a, "b": given, "order": ordered}
    push |= {"rest": rest, "out_": out, "n": n, "columns": columns}
    constants = {"LOCAL_X": WORKGROUP, "UPPER": int(kind.upper)}
    constants |= {"UNIT": int(kind.unit), "TRANSPOSED": int(kind.transposed)}
    found, defines = [], _defines(b.dtype)
    for first in range(0, n, tile):
        tiles = max(1, ceil_div(n - first - tile, tile))
        grid = ceil_div(columns, EDGE), tiles, matrices
        each = constants | {"SOURCE": 0 if first else source, "TARGET": target}
        words = push | {"first": first}
        found.append(Dispatch("linalg/solve_step", grid, words, each, defines))
    return found


def solution_dispatches(b: TensorSpec, given: bool, transposed: bool) -> list[Dispatch]:
    """Return the dispatches that solve A X = B by LU factors and their order.

    Parameters
    ----------
    b : TensorSpec, shape (matrices, n, columns)
    given : bool
        Otherwise B is the identity.
    transposed : bool
        Whether the transpose of A stands for it.
    """
    source, left = ("b" if given else "factors"), _left(b)
    first, second = _Substitution(False, True), _Substitution(True, False)
    if transposed:
        first, second = (
            _Substitution(False, False, True),
            _Substitution(True, True, True),
        )
    begun = 1 if transposed else 2 if given else 3
    half = _steps("factors", b, first, source, begun, "out", left)
    return half + _steps("factors", b, second, source, 0, left, "out", int(transposed))


def small_solve_dispatch(b: TensorSpec, given: bool) -> Dispatch:
    """Return the dispatch that solves A X = B of small matrices.

    Parameters
    ----------
    b : TensorSpec, shape (matrices, n, columns)
    given : bool
        Otherwise B is the identity.
    """
    matrices, n, columns = b.shape
    assert n <= MOST_IN_SHARED[b.dtype], f"solve: {n} rows are no small matrix"
    width = min(columns, MOST_IN_SHARED[b.dtype])
    push: dict[str, Argument] = {"a": "a", "b": "b" if given else "a"}
    push |= {"out_": "out", "info": "info", "matrices": matrices, "columns": columns}
    constants = {"LOCAL_X": _invocations(n), "N": n, "WIDTH": width}
    constants |= {"IDENTITY": int(not given)}
    across, down, _ = fold_grid(matrices)
    grid, defines = (across, down, ceil_div(columns, width)), _defines(b.dtype)
    return Dispatch("linalg/small_solve", grid, push, constants, defines)


def cholesky_dispatches(a: TensorSpec) -> list[Dispatch]:
    """Return the dispatches that factorise (matrices, n, n) by Cholesky.

    Of a large matrix each makes 32 columns, and takes the product of the 32 before them
    from what is behind these.
    """
    matrices, n, _ = a.shape
    if n <= SMALL[a.dtype]:
        return [_small_cholesky_dispatch(a)]
    rest = Scratch("rest", a.numel * a.dtype.itemsize)
    defines = _defines(a.dtype)
    push: dict[str, Argument] = {"a": "a", "out_": "out", "rest": rest}
    push |= {"info": "info", "n": n}
    found = []
    for begun in range(0, n, EDGE):
        tiles = max(0, ceil_div(n - begun - EDGE, TILES[a.dtype]))
        grid = max(1, tiles), 1 + (tiles if begun else 0), matrices
        # The first step leaves what is behind its columns as it is.
        constants = {"LOCAL_X": WORKGROUP, "FROM_A": int(begun <= EDGE)}
        words = push | {"begun": begun}
        found.append(Dispatch("linalg/cholesky_step", grid, words, constants, defines))
    return found


def _small_cholesky_dispatch(a: TensorSpec) -> Dispatch:
    matrices, n, _ = a.shape
    push: dict[str, Argument] = {"a": "a", "out_": "out", "info": "info"}
    push["matrices"] = matrices
    rows = max(8, 1 << (n - 1).bit_length())
    constants = {"LOCAL_X": SMALL_WORKGROUP, "N": n}
    grid = fold_grid(ceil_div(matrices, SMALL_WORKGROUP // rows))
    defines = {"ROWS": str(rows), **_defines(a.dtype)}
    return Dispatch("linalg/cholesky", grid, push, constants, defines)


def eigh_dispatch(a: TensorSpec, upper: bool) -> Dispatch:
    """Return the dispatch for the eigenvectors of (matrices, n, n), small ones."""
    matrices, n, _ = a.shape
    assert n <= MOST_IN_SHARED[a.dtype], f"eigh: {n} rows are no small matrix"
    push: dict[str, Argument] = {"a": "a", "out_": "out", "matrices": matrices}
    constants = {"LOCAL_X": _invocations(n), "N": n, "UPPER": int(upper)}
    grid, defines = fold_grid(matrices), _defines(a.dtype)
    return Dispatch("linalg/eigh", grid, push, constants, defines)


def qr_dispatch(a: TensorSpec) -> Dispatch:
    """Return the dispatch that factorises (matrices, m, n), small ones, m from n on."""
    matrices, m, n = a.shape
    assert n <= m <= MOST_IN_SHARED[a.dtype], f"qr: {m} x {n} is no small tall matrix"
    push: dict[str, Argument] = {"a": "a", "out_": "out", "matrices": matrices}
    constants = {"LOCAL_X": _invocations(m), "M": m, "N": n}
    grid, defines = fold_grid(matrices), _defines(a.dtype)
    return Dispatch("linalg/qr", grid, push, constants, defines)


def unpack_dispatch(factors: TensorSpec) -> Dispatch:
    """Return the dispatch that makes P, L and U of LU factors and their order."""
    n = factors.shape[-1]
    push: dict[str, Argument] = {"factors": "factors", "order": "order"}
    push |= {"p": "p", "l": "l", "u": "u", "numel": factors.numel, "n": n}
    push["magic"], push["shift"] = divisor(n)
    defines = _defines(factors.dtype)
    return linear_dispatch("linalg/lu_unpack", factors.numel, push, defines=defines)


def order_dispatch(pivots: TensorSpec, rows: int) -> Dispatch:
    """Return the dispatch for the order of rows that pivots make."""
    matrices, count = pivots.shape
    push: dict[str, Argument] = {"pivots": "pivots", "out_": "out"}
    push |= {"matrices": matrices, "count": count}
    constants = {"LOCAL_X": 64, "ROWS": rows}
    return Dispatch("linalg/pivot_order", fold_grid(matrices), push, constants)


def qr_columns(gpu: DeviceInfo, dtype: DType, rows: int) -> int:
    """Return the columns of the panels of `linalg/qr_panel`, 0 for too many rows."""
    local = min(QR_WORKGROUP, gpu.max_workgroup_invocations)
    held = max(QR_ROWS, 1 << (ceil_div(rows, local) - 1).bit_length())
    columns = QR_HELD[dtype] // held
    return columns if columns >= QR_LEAST else 0


def qr_dispatches(gpu: DeviceInfo, a: StridedSpec) -> list[Dispatch]:
    """Return the dispatches that factorise (matrices, m, n) to Q and R, m from n on.

    R is the upper triangle of the result `factors`.

    Of each panel one factorises it, and its reflections are applied to the columns
    behind it up to the end of a block of `QR_PANELS` panels; then those of the block to
    all behind. In the end they are applied to the identity, the last first: to Q.
    """
    matrices, m, n = a.shape
    columns = qr_columns(gpu, a.dtype, m)
    assert columns > 0, f"qr: the kernel takes no {m} rows"
    assert n <= m, f"qr: {m} x {n} is no tall matrix"
    panels = min(QR_PANELS, 1 << (ceil_div(n, columns) - 1).bit_length())
    block = columns * panels
    reflections = _Reflections(a, block)
    defines = {"COLUMNS": str(columns), **_defines(a.dtype)}
    most = min(QR_WORKGROUP, gpu.max_workgroup_invocations)
    found = [first_copy(gpu, "qr", a, "a", "factors")]
    for begun in range(0, n, columns):
        local = min(most, max(32, 1 << (m - begun - 1).bit_length()))
        held = {"ROWS": str(ceil_div(m - begun, local)), **defines}
        push: dict[str, Argument] = {"factors": "factors", "taus": reflections.taus}
        push["matrices"] = matrices
        push |= {"m": m, "n": n, "begun": begun}
        grid = fold_grid(matrices)
        found.append(Dispatch("linalg/qr_panel", grid, push, {"LOCAL_X": local}, held))
        behind, end = begun + columns, (begun // block + 1) * block
        found += reflections.applied(begun, columns, behind, min(end, n), True)
        if behind == end:
            found += reflections.applied(end - block, block, end, n, True)
    for begun in reversed(range(0, n, block)):
        found += reflections.applied(begun, block, begun, n, False)
    return found


class _Reflections:
    """Reflections of a QR factorisation, and memory for applying them.

    Attributes
    ----------
    taus : Scratch, (matrices, n)
        Their factors.
    products, shares : Scratch
        What `linalg/qr_gram` and `linalg/qr_solve` write.
    """

    def __init__(self, a: TensorSpec, vectors: int) -> None:
        self.a, (matrices, _, n) = a, a.shape
        size = a.dtype.itemsize
        wide = (ceil_div(n, TILE) + 1) * matrices
        self.taus = Scratch("taus", matrices * n * size)
        each = vectors * TILE * size
        self.products = Scratch("products", max(QR_GROUPS, wide) * each)
        self.shares = Scratch("shares", wide * each)

    def applied(
        self, begun: int, vectors: int, first: int, last: int, forward: bool
    ) -> list[Dispatch]:
        """Return the dispatches that apply some to columns from `first` to `last`.

        Forward they are applied to what is factorised, the first one first; else to
        what of Q was made of those behind them, the last one first.
        """
        if first >= last:
            return []
        matrices, m, n = self.a.shape
        tiles = ceil_div(last - first, TILE)
        most = max(1, QR_GROUPS // ((tiles + 1) * matrices))
        rows = max(QR_PART, ceil_div(ceil_div(m - begun, most), EDGE) * EDGE)
        parts, width = ceil_div(m - begun, rows), (tiles + 1) * TILE
        place: dict[str, Argument] = {"n": n, "begun": begun}
        whole: dict[str, Argument] = {"factors": "factors", **place, "m": m}
        whole |= {"target": "factors" if forward else "q"}
        whole |= {"first": first, "last": last}
        solved: dict[str, Argument] = {"products": self.products, "taus": self.taus}
        solved |= {"shares": self.shares, **place, "parts": parts, "width": width}
        constants = {"LOCAL_X": WORKGROUP, "FORWARD": int(forward)}
        defines = {"VECTORS": str(vectors), **_defines(self.a.dtype)}
        across = ceil_div(last - first, QR_EDGE), 1, matrices
        down = tiles, ceil_div(m - begun, TILE), matrices
        summed: dict[str, Argument] = {**whole, "products": self.products}
        summed["rows"] = rows
        taken: dict[str, Argument] = {**whole, "shares": self.shares}
        taken["width"] = width
        steps = (
            ("linalg/qr_gram", (tiles + 1, parts, matrices), summed),
            ("linalg/qr_solve", across, solved),
            ("linalg/qr_apply", down, taken),
        )
        return [
            Dispatch(name, grid, push, constants, defines) for name, grid, push in steps
        ]


def svd_dispatch(a: TensorSpec) -> Dispatch:
    """Return the dispatch for the singular vectors of (matrices, rows, columns)."""
    matrices, rows, columns = a.shape
    m, n = max(rows, columns), min(rows, columns)
    assert m <= MOST_IN_SHARED[a.dtype], f"svd: {rows} x {columns} is no small matrix"
    push: dict[str, Argument] = {"a": "a", "out_": "out", "matrices": matrices}
    constants = {"LOCAL_X": _invocations(m), "M": m, "N": n}
    constants["TURNED"] = int(rows < columns)
    grid, defines = fold_grid(matrices), _defines(a.dtype)
    return Dispatch("linalg/svd", grid, push, constants, defines)


def exponential_dispatch(a: TensorSpec, gradient: bool) -> Dispatch:
    """Return the dispatch for e to the power of (matrices, n, n), or its gradient."""
    matrices, n, _ = a.shape
    order = 2 * n if gradient else n
    assert order <= MOST_IN_SHARED[a.dtype], f"matrix_exp: {n} rows are too many"
    push: dict[str, Argument] = {"a": "a", "grad": "grad" if gradient else "a"}
    degree, most = TAYLOR[a.dtype]
    push |= {"out_": "out", "matrices": matrices, "most": most}
    constants = {"LOCAL_X": _invocations(order), "N": order, "DEGREE": degree}
    constants |= {"GRADIENT": int(gradient)}
    grid, defines = fold_grid(matrices), _defines(a.dtype)
    return Dispatch("linalg/matrix_exp", grid, push, constants, defines)


def panel_columns(dtype: DType, rows: int) -> int:
    """Return the columns of the panels of matrices of so many rows."""
    return min(PANELS[dtype][rows > WIDE_PANELS], max(8, ceil_div(rows, 8) * 8))


def lu_dispatches(gpu: DeviceInfo, a: StridedSpec) -> list[Dispatch]:
    """Return the dispatches that factorise (matrices, n, n) with partial pivoting.

    Of each panel one factorises it, one exchanges the rows of the other columns and
    makes U beside it, and one takes a product from what is left.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4.7.
    """
    matrices, n, _ = a.shape
    columns = panel_columns(a.dtype, n)
    most = min(PANEL_WORKGROUP, gpu.max_workgroup_invocations)
    moved = Scratch("moved", 4 * matrices * n)
    defines = {"COLUMNS": str(columns), **_defines(a.dtype)}
    begins = n * a.dtype.itemsize, a.layout.offset * a.dtype.itemsize
    vectors = {} if any(each % VECTOR for each in begins) else {"VECTORS": "1"}
    # One panel is read where the matrix is.
    is_whole = n <= columns
    found = [] if is_whole else [first_copy(gpu, "lu", a, "a", "factors")]
    for begun in range(0, n, columns):
        place: dict[str, Argument] = {"factors": "factors", "n": n, "begun": begun}
        rows: dict[str, Argument] = {**place, "moved": moved, "pivots": "pivots"}
        panel: dict[str, Argument] = {**rows, "order": "order", "sign_": "sign"}
        panel |= {"info": "info", "matrices": matrices}
        if is_whole:
            panel["a"], vectors["WHOLE"] = "a", "1"
        each_rows = ceil_div(n - begun, PANEL_ROWS.get(columns, 1))
        local = max(each_rows, min(n - begun, LEAST_PANEL), 32)
        local = min(most, 1 << (local - 1).bit_length())
        held = {**defines, **vectors, "ROWS": str(ceil_div(n - begun, local))}
        if size := full_subgroup(gpu, local):
            held["SUBGROUPS"] = str(local // size)
        grid = fold_grid(matrices)
        found.append(Dispatch("linalg/lu_panel", grid, panel, {"LOCAL_X": local}, held))
        others, left = n - min(columns, n - begun), n - begun - columns
        constants = {"LOCAL_X": WORKGROUP}
        if others:
            each = {"LOCAL_X": ROW_WORKGROUP}
            grid = ceil_div(others, ROW_WORKGROUP), 1, matrices
            found.append(Dispatch("linalg/lu_rows", grid, rows, each, defines))
        if left > 0:
            grid = ceil_div(left, TILE), ceil_div(left, TILE), matrices
            found.append(Dispatch("linalg/lu_update", grid, place, constants, defines))
    return found
