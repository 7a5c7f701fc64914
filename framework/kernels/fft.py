"""Fourier transforms of rows: which lengths, and launch parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.dtype import float32
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    StridedSpec,
    divisor,
    fold_grid,
    linear_grid,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

RADICES = (4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
"""Factors of lengths that the shaders have.

A row with a larger one is a convolution, which transforms twice as many numbers at
least, twice: a prime takes its square of products, a fifth of which for 31.
"""

SMALL_RADIX = 13
"""Largest radix of kernels without `LARGEST_RADIX`."""

LONGEST_IN_PASSES = 1 << 28
"""Elements of the longest row of which all angles fit into 32 bits."""

WORKGROUP = 128
"""Least invocations of a workgroup, of several rows where they are short."""

IN_REGISTERS = 16
"""Numbers that one invocation transforms at once between two barriers."""

MOST_PASSES = 5
"""Most passes between barriers that the shader has."""

NEIGHBOURS = 8
"""Invocations that must read neighbouring numbers, or else these are staged."""

LEAST_BESIDE, BESIDE = 4, 8
"""Columns of a workgroup, at least and if they fit: a sector of 32 bytes, and two."""

MOST_TABLE = 1 << 14
"""Numbers of a table that both transforms of a long row share."""

MOST_AT_ONCE = 32
"""Numbers that one invocation transforms in a pass of its own."""

NONE: Mapping[str, Any] = {}
"""No further arguments, or macros."""

PASS_WORKGROUP = 64
"""Invocations of a workgroup of such a pass."""


@functools.lru_cache(maxsize=1024)
def radices_of(n: int) -> tuple[int, ...] | None:
    """Return the factors of a length that the shader has; None if there are others."""
    found = []
    for radix in RADICES:
        while n % radix == 0 and n > 1:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def takes_rows(n: int) -> bool:
    """Return whether a device transforms rows of a length."""
    return n <= LONGEST_IN_PASSES and radices_of(n) is not None


def compiles_rows(gpu: DeviceInfo, n: int) -> bool:
    """Return whether a device transforms rows of a length by kernels that it compiles.

    SwiftShader takes minutes for large radices.
    """
    if not takes_rows(n):
        return False
    largest = max(radices_of(n) or (1,))
    return largest <= SMALL_RADIX or gpu.target.compiles_row_kernels


def _row_bytes(n: int) -> int:
    """Return the bytes of a row in shared memory, with a place for each 16 numbers.

    Half of them are enough for one part of each number, and where the row begins.
    """
    return 8 * (n + n // 16 + 3)


def _row_places(n: int, threads: int, strided: bool) -> int:
    """Return the places of a row in shared memory.

    Numbers that one subgroup reads at once, of several rows, are to be in different
    banks: one of each row where these are beside each other, else as many neighbours as
    the row has invocations. Of a few invocations rows may have a number more.
    """
    least = n + n // 16
    if strided:
        return least | 1
    least += int(threads < NEIGHBOURS)
    if threads not in (1, 2, 4, 8):
        return least
    return least + (3 * threads - least) % (2 * threads)


def _fits(gpu: DeviceInfo, n: int, rows: int, split: bool = True) -> bool:
    """Return whether a workgroup has some rows in registers and in shared memory.

    With `split`, also if it has real and imaginary parts there one after the other.
    """
    size = rows * _row_bytes(n)
    most = IN_REGISTERS * gpu.max_workgroup_invocations
    return (
        gpu.target.cheap_barriers
        and (size <= gpu.max_shared_memory or (split and rows * n <= most))
        and size <= gpu.max_shared_memory * (2 if split else 1)
        and len(pass_radices(n, IN_REGISTERS)) <= MOST_PASSES
    )


def fits_registers(gpu: DeviceInfo, n: int) -> bool:
    """Return whether rows stay in registers and shared memory between passes."""
    return _fits(gpu, n, 1)


@functools.lru_cache(maxsize=4096)
def pass_radices(n: int, most: int = MOST_AT_ONCE) -> tuple[tuple[int, int], ...]:
    """Return the radices of as few passes as transform rows of `n`, of even sizes.

    Each is one of the shader's, or a product of two that is at most `most`.
    """
    if n == 1:
        return ()
    factors = (8, *RADICES)
    pairs = {
        a * b: (a, b)
        for a in factors
        for b in (1, *factors)
        if b == 1 or (a >= b and a * b <= most)
    }
    found = [
        (pair, *pass_radices(n // radix, most))
        for radix, pair in pairs.items()
        if n % radix == 0
    ]
    return min(
        found, key=lambda made: (len(made), sum(math.prod(each) for each in made))
    )


def fits_columns(gpu: DeviceInfo, n: int) -> bool:
    """Return whether columns of `n` numbers are transformed beside each other."""
    return takes_rows(n) and _fits(gpu, n, LEAST_BESIDE)


@functools.lru_cache(maxsize=1024)
def split_length(n: int, most: int) -> tuple[int, ...] | None:
    """Return two factors of a length, or three, all at most `most`; None without.

    They are as equal as there are, and their tables are parts of one of `MOST_TABLE`
    numbers at most.
    """
    if not takes_rows(n):
        return None
    divisors = [each for each in range(2, min(most, n) + 1) if n % each == 0]
    pairs = [(n // each, each) for each in divisors if each * each <= n]
    threes = [
        (n // (one * other), one, other)
        for one in divisors
        for other in divisors
        if other <= one and one * one * other <= n and n % (one * other) == 0
    ]
    for found in (pairs, threes):
        fitting = [
            each for each in found if each[0] <= most and math.lcm(*each) <= MOST_TABLE
        ]
        if fitting:
            return min(fitting)[::-1]
    return None


def split_columns(gpu: DeviceInfo, n: int) -> tuple[int, ...] | None:
    """Return the sizes of the matrix, or cube, as which a long row is transformed."""
    most = (gpu.max_shared_memory // (4 * LEAST_BESIDE) - 3) * 16 // 17
    found = split_length(n, most)
    return found if found and all(fits_columns(gpu, each) for each in found) else None


def table_size(gpu: DeviceInfo, n: int, columns: bool) -> int:
    """Return how many numbers of a table the kernels read; 1 where they read none."""
    if fits_columns(gpu, n) if columns else fits_registers(gpu, n):
        return n
    split = split_columns(gpu, n)
    return math.lcm(*split) if split else 1


def takes_reals(gpu: DeviceInfo, n: int, columns: bool) -> bool:
    """Return whether kernels read real numbers of rows, or columns, as complex ones."""
    if not takes_rows(n):
        return takes_convolutions(gpu, convolution_size(n))
    return table_size(gpu, n, columns) > 1


def takes_columns(gpu: DeviceInfo, n: int) -> bool:
    """Return whether rows that lie beside each other are transformed in place."""
    return fits_columns(gpu, n) or split_columns(gpu, n) is not None


def fft_dispatches(
    gpu: DeviceInfo, x: StridedSpec, inverse: bool, scale: float
) -> list[Dispatch]:
    """Return the dispatches that transform (rows, n), or columns (outer, n, inner)."""
    outer, n, *rest = x.shape
    assert takes_rows(n), f"fft: rows of {n} are a convolution's"
    sign = {"INVERSE": int(inverse)}
    reals = Reals() if x.dtype is float32 else None
    macros = reals.macros() if reals else NONE
    if rest and fits_columns(gpu, n):
        (inner,) = rest
        apart = n * inner, 0, inner
        columns = Columns(apart, apart, 1, inner, n)
        rows = outer * inner
        return [_beside(gpu, rows, n, scale, sign, columns, "x", "out", macros)]
    if not rest and (n == 1 or fits_registers(gpu, n)):
        return [_in_registers(gpu, outer, n, scale, sign, NONE, macros)]
    inner = rest[0] if rest else 1
    return _long_rows(gpu, outer, n, inner, inverse, scale, reals=reals)


def _long_rows(
    gpu: DeviceInfo,
    outer: int,
    n: int,
    inner: int,
    inverse: bool,
    scale: float,
    source: str | Scratch = "x",
    out: str | Scratch = "out",
    reals: Reals | None = None,
) -> list[Dispatch]:
    """Return the dispatches that transform rows of any length."""
    ends, sign = Ends(n, n, reals=reals), {"INVERSE": int(inverse)}
    if inner == 1 and fits_registers(gpu, n):
        places = {"x": source, "out_": out, **ends.arguments(True)}
        return [_in_registers(gpu, outer, n, scale, sign, places, ends.macros(True))]
    split = split_columns(gpu, n)
    if split:
        return _as_matrix(gpu, outer, split, inner, scale, sign, source, out, ends)
    assert not reals, f"fft: rows of {n} are not transformed of real numbers"
    assert inner == 1, f"fft: columns of {n} are not transformed in place"
    return _passes(gpu, outer, n, inverse, scale, source, out)


class Reals(NamedTuple):
    """Real numbers as a source of complex ones.

    Attributes
    ----------
    joined, end : int
        How far after each number its imaginary part is, 0 for none, and how many
        numbers there are.
    """

    joined: int = 0
    end: int = 0

    def macros(self) -> dict[str, str]:
        """Return the macros of the kernel that reads them."""
        return {"REALS": "1", "JOINED": str(int(self.joined > 0))}

    def arguments(self) -> dict[str, Argument]:
        """Return the arguments of this kernel."""
        return {"joined": self.joined, "end": self.end} if self.joined else {}


class Ends(NamedTuple):
    """What numbers of rows are multiplied with before a transform, and after it.

    Attributes
    ----------
    taken, kept : int
        Numbers of a row of the source, which zeros follow, and of the result.
    before, after : str or None
        Tensors of the factors.
    reals : Reals or None
        What real numbers the source has.
    """

    taken: int
    kept: int
    before: str | None = None
    after: str | None = None
    reals: Reals | None = None

    def macros(self, first: bool) -> dict[str, str]:
        """Return the macros of the kernel that reads rows, or that writes them."""
        tensor = self.before if first else self.after
        found = {"FACTORED_IN" if first else "FACTORED_OUT": "1"} if tensor else {}
        return found | (self.reals.macros() if first and self.reals else {})

    def arguments(self, first: bool) -> dict[str, Argument]:
        """Return the arguments of this kernel."""
        found = self.reals.arguments() if first and self.reals else {}
        if first and self.before:
            return found | {"in_factors": self.before, "taken": self.taken}
        if first:
            return found
        if not first and self.after:
            return {"out_factors": self.after, "kept": self.kept}
        return {}


class Columns(NamedTuple):
    """Rows beside each other, as columns of matrices: row (outer, mid, inner).

    Attributes
    ----------
    source, out : (int, int, int)
        Numbers from one outer, and one mid, to the next, and from number to number.
    mids, inners : int
        How many there are; those of `inners` are neighbours.
    table : int
        Numbers of the table.
    apart, whole : int
        Neighbours that take the same factors, and how many numbers a circle has of
        which these are.
    """

    source: tuple[int, int, int]
    out: tuple[int, int, int]
    mids: int
    inners: int
    table: int
    apart: int = 1
    whole: int = 1


def _as_matrix(
    gpu: DeviceInfo,
    outer: int,
    sizes: tuple[int, ...],
    inner: int,
    scale: float,
    sign: Mapping[str, int],
    source: str | Scratch,
    out: str | Scratch,
    ends: Ends,
) -> list[Dispatch]:
    """Return the dispatches that transform long rows as matrices, or cubes.

    A pass finds the numbers as (done, size, rest), of which `done` were transformed
    before. It transforms all columns, which take factors, and writes them as (size,
    done, rest), so that the last pass, whose columns are rows, leaves them in order.

    Source: Bailey, "FFTs in External or Hierarchical Memory", 1990.
    """
    whole, table = math.prod(sizes), math.lcm(*sizes)
    dispatches = []
    done = 1
    for number, size in enumerate(sizes):
        last = number == len(sizes) - 1
        rest = whole // (done * size)
        wide = rest * inner
        row = (ends.kept if last else whole) * inner
        given = whole if number else ends.taken
        columns = Columns(
            (given * inner, size * wide, wide),
            (row, wide, done * wide),
            done,
            wide,
            table,
            inner,
            rest * size,
        )
        name = "others" if number % 2 else "numbers"
        target = out if last else Scratch(name, 8 * outer * whole * inner)
        macros = {"TWIDDLED": "0" if last else "1"}
        macros["STAGED"] = str(int(wide < NEIGHBOURS))
        more: dict[str, Argument] = {}
        for first in (True, False):
            if number == 0 if first else last:
                macros |= ends.macros(first)
                more |= ends.arguments(first)
        rows, factor = outer * done * wide, scale if last else 1.0
        dispatches.append(
            _beside(
                gpu, rows, size, factor, sign, columns, source, target, macros, more
            )
        )
        source, done = target, done * size
    return dispatches


def _beside(
    gpu: DeviceInfo,
    rows: int,
    n: int,
    scale: float,
    sign: Mapping[str, int],
    columns: Columns,
    source: str | Scratch,
    out: str | Scratch,
    macros: Mapping[str, str] = NONE,
    more: Mapping[str, Argument] = NONE,
) -> Dispatch:
    """Return the dispatch that transforms rows which lie beside each other."""
    push: dict[str, Argument] = {"x": source, "out_": out, **more}
    for name, apart in (("from", columns.source), ("to", columns.out)):
        push |= {f"{name}[{k}]": number for k, number in enumerate(apart)}
    push |= {"mids": columns.mids, "inners": columns.inners, "apart": columns.apart}
    push |= {"whole": columns.whole, "table_step": columns.table // n}
    macros = {"STAGED": "0", **macros, "STRIDED": "1"}
    return _in_registers(gpu, rows, n, scale, sign, push, macros)


def convolution_size(n: int) -> int:
    """Return the size of the convolution that transforms rows of a length."""
    return 1 << (2 * n - 2).bit_length()


def takes_convolutions(gpu: DeviceInfo, size: int) -> bool:
    """Return whether kernels convolve rows by transforms of a size."""
    return fits_registers(gpu, size) or split_columns(gpu, size) is not None


def convolution_dispatches(
    gpu: DeviceInfo,
    rows: int,
    n: int,
    size: int,
    inverse: bool,
    scale: float,
    source: str | Scratch = "x",
    out: str | Scratch = "out",
    reals: Reals | None = None,
) -> list[Dispatch]:
    """Return the dispatches that transform rows of any length by a convolution.

    Parameters
    ----------
    gpu : DeviceInfo
    rows, n : int
        Shape of the complex numbers.
    size : int
        Of the convolution, at least 2 n - 1; see `takes_convolutions`.
    inverse : bool
        Whether the conjugates of all factors are taken.
    scale : float
        Factor of the result.
    source, out : str or Scratch
        Where the numbers and the results are.
    reals : Reals or None
        What real numbers these are.
    """
    wide = Scratch("wide", 8 * rows * size)
    turns: list[tuple[Ends, str | Scratch, str | Scratch]] = [
        (Ends(n, size, "chirp", "response", reals), source, wide),
        (Ends(size, n, None, "chirp"), wide, out),
    ]
    parts: list[Dispatch] = []
    for number, (ends, given, made) in enumerate(turns):
        constants = {"INVERSE": number, "CONJUGATED": int(inverse)}
        factor = scale / size if number else 1.0
        split = split_columns(gpu, size)
        if fits_registers(gpu, size):
            push: dict[str, Argument] = {"x": given, "out_": made}
            push |= ends.arguments(True) | ends.arguments(False)
            macros = ends.macros(True) | ends.macros(False)
            parts.append(
                _in_registers(gpu, rows, size, factor, constants, push, macros)
            )
        else:
            assert split is not None
            parts += _as_matrix(
                gpu, rows, split, 1, factor, constants, given, made, ends
            )
    return parts


def real_fft_dispatches(
    gpu: DeviceInfo,
    x: StridedSpec,
    n: int,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
    size: int | None = None,
) -> list[Dispatch]:
    """Return the dispatches of real numbers to half their transform, or `back`.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec
        (rows, 2 n) real numbers, or (rows, n + 1) of half a transform.
    n : int
        Half the number of real numbers.
    back : bool
    conjugated : bool
        Whether halves of transforms are conjugated.
    scale, inner : float
        Factors of the result, and of all numbers of half a transform but the first and
        the last.
    size : int or None
        Of the convolution by which the pairs are transformed; None where there is none.
    """
    assert size or takes_rows(n), f"fft: rows of {n} are a convolution's"
    rows = x.shape[0]
    push: dict[str, Argument] = {"halves": "halves", "inner": inner}
    if size is None and _fits(gpu, n, 1, split=False):
        constants = {"INVERSE": int(back), "CONJUGATED": int(conjugated)}
        macros = {"HALVES_IN" if back else "REAL_IN": "1"}
        return [_in_registers(gpu, rows, n, scale, constants, push, macros)]
    pairs = Scratch("pairs", 8 * rows * n)
    count = rows * (n // 2 + 1)
    local = min(PASS_WORKGROUP, gpu.max_workgroup_invocations)
    push |= {"n": n, "count": count, "scale": 1.0 if back else scale}
    push["magic"], push["shift"] = divisor(n // 2 + 1)
    push |= {"x": "x", "out_": pairs} if back else {"x": pairs, "out_": "out"}
    halves = Dispatch(
        "fft/halves",
        linear_grid(count, local),
        push,
        {"LOCAL_X": local, "CONJUGATED": int(conjugated)},
        {"BACK": str(int(back))},
    )
    factor, source, out = (scale, pairs, "out") if back else (1.0, "x", pairs)
    if size:
        parts = convolution_dispatches(gpu, rows, n, size, back, factor, source, out)
    else:
        parts = _long_rows(gpu, rows, n, 1, back, factor, source, out)
    return [halves, *parts] if back else [*parts, halves]


def odd_rfft_dispatches(
    gpu: DeviceInfo, x: StridedSpec, size: int | None, conjugated: bool, scale: float
) -> list[Dispatch]:
    """Return the dispatches of real rows, of odd length, to half their transforms.

    Two rows are the real and the imaginary parts of one.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec
        (rows, n) real numbers, see `takes_reals`.
    size : int or None
        Of the convolution by which rows are transformed; None where there is none.
    conjugated : bool
        Whether results are.
    scale : float
        Factor of the result.
    """
    rows, n = x.shape
    halves, kept = ceil_div(rows, 2), n // 2 + 1
    made = Scratch("joined", 8 * halves * n)
    reals = Reals(halves * n, rows * n)
    if size:
        args = halves, n, size, False, scale, "x", made, reals
        parts = convolution_dispatches(gpu, *args)
    else:
        parts = _long_rows(gpu, halves, n, 1, False, scale, "x", made, reals)
    count, local = halves * kept, min(PASS_WORKGROUP, gpu.max_workgroup_invocations)
    push: dict[str, Argument] = {"x": made, "out_": "out", "n": n, "count": count}
    push |= {"halves": halves, "rows": rows}
    push["magic"], push["shift"] = divisor(kept)
    constants = {"LOCAL_X": local, "CONJUGATED": int(conjugated)}
    last = Dispatch("fft/joined", linear_grid(count, local), push, constants)
    return [*parts, last]


def _in_registers(
    gpu: DeviceInfo,
    rows: int,
    n: int,
    scale: float,
    constants: Mapping[str, int],
    push: Mapping[str, Argument] = NONE,
    macros: Mapping[str, str] = NONE,
) -> Dispatch:
    """Return the dispatch that transforms rows in registers."""
    radices = pass_radices(n, IN_REGISTERS) or ((1, 1),)
    sizes = [first * second for first, second in radices]
    most = gpu.max_workgroup_invocations
    threads = _threads(n, sizes, most)
    held = max(size * ceil_div(n // size, threads) for size in sizes)
    each = max(1, min(WORKGROUP, most) // threads)
    if "STRIDED" in macros:
        each = min(max(BESIDE, each), max(1, most // threads))
    least = LEAST_BESIDE if "STRIDED" in macros else 1
    split = least * _row_bytes(n) > gpu.max_shared_memory
    places = _row_places(n, threads, "STRIDED" in macros)
    size = places * (4 if split else 8) + 8
    each = max(1, min(each, gpu.max_shared_memory // size))
    if each < BESIDE:
        each = 1 << each.bit_length() - 1
    defines = {"STAGED": str(int(threads < NEIGHBOURS)), **macros}
    if (threads >= NEIGHBOURS and len(radices) > 1) or split:
        # Neighbours that have numbers of one row read these where they are.
        along = "STRIDED" in macros and defines["STAGED"] == "1"
        defines |= {"STAGED": "0", "ALONG": str(int(along))}
    defines |= {
        "PASSES": str(len(radices)),
        "HELD": str(held),
        "SPLIT": str(int(split)),
    }
    numbers: dict[str, Argument] = {"rows": rows, "scale": scale}
    for k, (first, second) in enumerate(radices):
        defines |= {f"FIRST_{k}": str(first), f"SECOND_{k}": str(second)}
    defines |= _large(radices)
    return Dispatch(
        "fft/rows",
        fold_grid(ceil_div(rows, each)),
        {"x": "x", "table": "table", "out_": "out", **numbers, **push},
        {
            **constants,
            "N": n,
            "ROWS": each,
            "THREADS": threads,
            "PLACES": places,
            "LOCAL_X": each * threads,
        },
        defines,
    )


def _threads(n: int, sizes: Sequence[int], most: int) -> int:
    """Return the invocations of a row: those that are idle least, then the fewest.

    Of 255 numbers the passes are of 15 times 17 and of 17 times 15: 15 invocations
    would do the second one twice, for two of them.
    """

    def slots(threads: int) -> int:
        return threads * sum(size * ceil_div(n // size, threads) for size in sizes)

    counts = {min(ceil_div(n, size), most) for size in sizes}
    return min(counts, key=lambda threads: (slots(threads), threads))


def _large(radices: Sequence[tuple[int, int]]) -> dict[str, str]:
    """Return the macro of kernels with radices that the others have no room for."""
    largest = max(radices)[0]
    return {"LARGEST_RADIX": str(largest)} if largest > SMALL_RADIX else {}


def _passes(
    gpu: DeviceInfo,
    rows: int,
    n: int,
    inverse: bool,
    scale: float,
    source: str | Scratch = "x",
    result: str | Scratch = "out",
) -> list[Dispatch]:
    """Return a dispatch for each pass; between them numbers are in memory."""
    between = Scratch("numbers", 8 * rows * n)
    radices = pass_radices(n) or ((1, 1),)
    local = min(PASS_WORKGROUP, gpu.max_workgroup_invocations)
    # A device without 64-bit integers moves the parts of a number.
    defines = {"PAIRED": str(int(gpu.shader_int64))}
    dispatches: list[Dispatch] = []
    done = 1
    for left, (first, second) in zip(
        range(len(radices) - 1, -1, -1), radices, strict=True
    ):
        radix = first * second
        apart = n // (done * radix)
        target = between if left % 2 else result
        push: dict[str, Argument] = {"x": source, "out_": target, "n": n, "done": done}
        push |= {"apart": apart, "count": rows * (n // radix)}
        push["scale"] = 1.0 if left else scale
        for k, number in enumerate((n // radix, apart)):
            push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(number)
        constants = {"LOCAL_X": local, "FIRST": first, "SECOND": second}
        constants["INVERSE"] = int(inverse)
        grid = fold_grid(ceil_div(rows * (n // radix), local))
        macros = {**defines, **_large([(first, second)])}
        dispatches.append(Dispatch("fft/pass", grid, push, constants, macros))
        source, done = target, done * radix
    return dispatches
