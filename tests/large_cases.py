"""Cases of `tests.large_sizes`: element-wise ops, copies, reductions, scans, sorts."""

import math
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.large_case import PERIOD, Places, Work, case, mod

NARROW = ("uint8", "bfloat16", "float32")
COLUMNS = 4099


def total(count: Any) -> Any:
    """Return the sum of the pattern over so many elements."""
    whole, rest = np.divmod(count, PERIOD)
    return whole * (PERIOD * (PERIOD - 1) // 2) + rest * (rest - 1) // 2


@case(*NARROW, "int64", tensors=1)
def _arange_and_cast(work: Work) -> None:
    work.check("pattern", work.pattern(), mod)


@case(*NARROW, tensors=3)
def _unary_and_binary(work: Work) -> None:
    x = work.pattern()
    work.check(
        "x // 2 + 1", fw.clamp(x + 1, max=99), lambda at: np.minimum(mod(at) + 1, 99)
    )
    work.check(
        "where", fw.where(x > 100, x, x * 0), lambda at: mod(at) * (mod(at) > 100)
    )


@case("uint8", "float32", tensors=4, others=1)
def _compare_in_place(work: Work) -> None:
    x, y = work.pattern(), work.full(100, work.count)
    work.check("x < y", x < y, lambda at: mod(at) < 100)
    y[1:-1] += 1
    x -= x
    work.check("x", x, lambda at: 0 * at)
    work.check("y", y, lambda at: 101 - ((at == 0) | (at == work.count - 1)))


@case("uint8", others=4, widest=4, tensors=1)
def _widen(work: Work) -> None:
    work.check("float32", work.pattern().to("float32"), mod)


@case(*NARROW, tensors=2)
def _broadcast(work: Work) -> None:
    rows = work.rows(COLUMNS)
    row, column = work.pattern(COLUMNS), work.pattern(rows, 1)
    work.check(
        "maximum",
        fw.maximum(row.expand(rows, COLUMNS), column),
        lambda at: np.maximum(mod(at % COLUMNS), mod(at // COLUMNS)),
    )


@case(*NARROW, tensors=2)
def _strided_copy(work: Work) -> None:
    x = work.pattern()
    last = work.count - 1
    work.check("x[1::2]", x[1::2].contiguous(), lambda at: mod(2 * at + 1))
    work.check("flip", fw.flip(x, (0,)), lambda at: mod(last - at))
    work.check("x[3:]", x[3:].contiguous(), lambda at: mod(at + 3))
    shift = work.count // 3 * 2
    work.check("roll", fw.roll(x, shift, 0), lambda at: mod((at - shift) % work.count))


@case(*NARROW, tensors=2, each=((COLUMNS,), (4096,), (3,)))
def _transpose(work: Work, columns: int) -> None:
    rows = work.rows(columns)
    x = work.pattern(rows, columns)
    work.check(
        f"({rows}, {columns})",
        x.T.contiguous(),
        lambda at: mod(at % rows * columns + at // rows),
    )


@case(*NARROW, tensors=2)
def _permute_in_batches(work: Work) -> None:
    a, b = 64, 33
    rows = work.rows(a * b)
    x = work.pattern(rows, a, b)
    work.check(
        "batches",
        x.transpose(1, 2).contiguous(),
        lambda at: mod(at // (a * b) * a * b + at % a * b + at // a % b),
    )
    work.check(
        "outermost last",
        x.permute(1, 2, 0).contiguous(),
        lambda at: mod(at % rows * a * b + at // rows),
    )


@case(*NARROW, tensors=2.1)
def _cat_stack_pad(work: Work) -> None:
    half = work.count // 2 - 1
    x = work.pattern(half)
    work.check("cat", fw.cat([x, x[1:]]), lambda at: mod(at % half + at // half))
    rows = half // COLUMNS
    x = x[: rows * COLUMNS].reshape(rows, COLUMNS)
    work.check(
        "cat of columns",
        fw.cat([x, x], 1),
        lambda at: mod(at // (2 * COLUMNS) * COLUMNS + at % COLUMNS),
    )
    wide = COLUMNS + 3
    work.check(
        "pad",
        fw.nn.functional.pad(x, (1, 2)),
        lambda at: np.where(
            (at % wide > 0) & (at % wide <= COLUMNS),
            mod(at // wide * COLUMNS + at % wide - 1),
            0,
        ),
    )


@case("uint8", "float32", tensors=2)
def _repeat(work: Work) -> None:
    x = work.pattern(COLUMNS)
    rows = work.rows(COLUMNS)
    work.check("tile", fw.tile(x, (rows,)), lambda at: mod(at % COLUMNS))
    x = work.pattern(work.count // 2)
    work.check("interleaved", x.repeat_interleave(2), lambda at: mod(at // 2))


@case(*NARROW, tensors=1)
def _item_assignment(work: Work) -> None:
    places = work.borders()
    x = work.marked(places, 7)
    work.check("marks", x, lambda at: 7 * np.isin(at, places))


@case(*NARROW, tensors=1)
def _transfer_of_a_part(work: Work) -> None:
    x = work.full(0, work.count)
    at = work.count - (1 << 16) - 1
    x[at:-1] = fw.tensor(
        np.arange(1 << 16) % PERIOD, dtype=work.dtype, device=work.device
    )
    work.check("part", x[at:], lambda p: np.where(p < 1 << 16, mod(p), 0))
    work.check(
        "whole", x, lambda p: np.where((p >= at) & (p < work.count - 1), mod(p - at), 0)
    )


@case(*NARROW, tensors=1, others=0.1)
def _sum_of_all(work: Work) -> None:
    x = work.pattern()
    rtol = {"uint8": 0, "float32": 1e-3, "bfloat16": 1e-2}[work.dtype]
    work.same("sum", x.sum().item(), total(work.count), rtol)
    work.same("amax", x.amax().item(), PERIOD - 1)
    work.same(
        "count_nonzero",
        fw.count_nonzero(x).item(),
        work.count - -(-work.count // PERIOD),
    )


@case(*NARROW, tensors=1, others=0.1)
def _arg_extremes(work: Work) -> None:
    for place in work.borders()[-5:]:
        x = work.marked([place + 1])
        work.same("argmax", x.argmax().item(), place + 1)
        x = x * 0 + 1 if work.itemsize > 1 else x


@case(*NARROW, tensors=2, others=0.1, each=((COLUMNS,), (16,), (1 << 20,)))
def _reduce_rows(work: Work, columns: int) -> None:
    x = work.pattern(work.rows(columns), columns)
    width = np.arange(min(columns, 2 * PERIOD))

    def sums(at: Places) -> Any:
        return total((at + 1) * columns) - total(at * columns)

    def largest(at: Places) -> Any:
        return mod(at[:, None] * columns + width).argmax(1)

    rtol = {"uint8": 0, "float32": 1e-5, "bfloat16": 1e-2}[work.dtype]
    work.check("sum", x.sum(1), sums, rtol)
    work.check("argmax", x.argmax(1), largest)


@case(*NARROW, tensors=2.1, others=0.1, each=((COLUMNS,), (1 << 20,)))
def _reduce_columns(work: Work, columns: int) -> None:
    rows = work.rows(columns)
    x = work.pattern(rows, columns)
    steps = np.arange(min(rows, PERIOD), dtype=np.int64) * columns
    work.check("amax", x.amax(0), lambda at: mod(at[:, None] + steps).max(1))
    ones = x * 0 + 1
    rtol = 1e-2 if work.dtype == "bfloat16" else 0
    work.check("sum", ones.sum(0), lambda at: 0 * at + rows, rtol)


@case("float32", tensors=1, others=0.5)
def _statistics(work: Work) -> None:
    x = work.pattern()
    mean = total(work.count) / work.count
    work.same("mean", x.mean().item(), mean, 1e-3)
    work.same("var", x.var().item(), (PERIOD**2 - 1) / 12, 1e-3)
    rows = work.rows(1 << 16)
    y = work.full(1, rows, 1 << 16)
    work.check(
        "logsumexp", y.logsumexp(1), lambda at: 0.0 * at + 1 + math.log(1 << 16), 1e-5
    )
    work.check("norm", fw.linalg.norm(y, dim=1), lambda at: 0.0 * at + 256, 1e-5)


@case("float32", "int32", tensors=2, others=0.5)
def _scan(work: Work) -> None:
    places = work.borders()
    x = work.marked(places)
    order = np.asarray(places)

    def counted(at: Places) -> Any:
        return np.searchsorted(order, at, "right")

    result = fw.cumsum(x, 0, dtype=work.dtype)
    work.check("cumsum", result, counted)
    del result
    rows = work.rows(COLUMNS)
    y = x[: rows * COLUMNS].reshape(rows, COLUMNS)

    def rowwise(at: Places) -> Any:
        return counted(at) - np.searchsorted(order, at // COLUMNS * COLUMNS)

    work.check("cumsum of rows", fw.cumsum(y, 1, dtype=work.dtype), rowwise)
    ones = work.full(1, rows, COLUMNS)
    del x, y
    work.check(
        "cumsum of columns",
        fw.cumsum(ones, 0, dtype=work.dtype),
        lambda at: at // COLUMNS + 1,
    )


@case("uint8", "int32", "float32", tensors=4, others=24, widest=8)
def _sort(work: Work) -> None:
    x = work.pattern()
    each, rest = divmod(work.count, PERIOD)
    counts = np.full(PERIOD, each, np.int64)
    counts[:rest] += 1
    ends = np.cumsum(counts)
    values, order = fw.sort(x, stable=True)
    work.check("sort", values, lambda at: np.searchsorted(ends, at, "right"))

    def place(at: Places) -> Places:
        value = np.searchsorted(ends, at, "right")
        return (at - (ends[value] - counts[value])) * PERIOD + value

    work.check("argsort", order, place)


@case("float32", "int32", tensors=4, others=16, each=((COLUMNS,), (128,)), widest=8)
def _sort_rows(work: Work, columns: int) -> None:
    rows = work.rows(columns)
    x = fw.flip(
        fw.arange(columns, dtype="int32", device=work.device).to(work.dtype), (0,)
    )
    x = x.expand(rows, columns).contiguous()
    values, order = fw.sort(x, 1)
    work.check(f"sort of rows of {columns}", values, lambda at: at % columns)
    work.check(
        f"argsort of rows of {columns}",
        order,
        lambda at: columns - 1 - at % columns,
    )
    top, places = fw.topk(x, 5, 1)
    work.check("topk", top, lambda at: columns - 1 - at % 5)
    work.check("places", places, lambda at: at % 5)
    del x, values, order


@case("uint8", "float32", tensors=2, others=12, widest=8)
def _select(work: Work) -> None:
    x = work.marked(work.borders(), 3)
    top, places = fw.topk(x, 3)
    work.same("topk", top.tolist(), 3)
    work.same("places", sorted(places.tolist())[-1] in [*work.borders()], 1)
    work.same("kthvalue", fw.kthvalue(x, work.count - 1)[0].item(), 3)
    work.same("median", x.median().item(), 0)


@case("uint8", "int32", tensors=1, others=4, widest=4)
def _histogram(work: Work) -> None:
    x = work.pattern()
    counts = fw.bincount(x, minlength=PERIOD)
    each, rest = divmod(work.count, PERIOD)
    work.check("bincount", counts, lambda at: each + (at < rest))
    if work.dtype == "int32":
        found = fw.histc(x.to("float32"), PERIOD, 0, PERIOD)
        work.check("histc", found, lambda at: each + (at < rest), 1e-6)


@case("uint8", "bool", "float32", tensors=1.1, others=4.2, widest=4)
def _compaction(work: Work) -> None:
    places = work.borders()
    x = work.marked(places)
    work.same("nonzero", fw.nonzero(x).reshape(-1).tolist(), places)
    work.same("masked_select", fw.masked_select(x, x != 0).tolist(), [1] * len(places))


@case("uint8", "int32", tensors=3, others=20, widest=8)
def _unique(work: Work) -> None:
    x = work.pattern()
    values, counts = fw.unique(x, return_counts=True)
    each, rest = divmod(work.count, PERIOD)
    work.check("values", values, lambda at: at)
    work.check("counts", counts, lambda at: each + (at < rest))


@case("float32", "uint8", tensors=2, others=5, widest=4)
def _gather_elements(work: Work) -> None:
    x = work.pattern()
    places = np.asarray(work.borders())
    index = fw.tensor(places, dtype="int64", device=work.device)
    work.same("x[index]", x[index].tolist(), mod(places))
    work.same("take", fw.gather(x, 0, index).tolist(), mod(places))
    y = x.clone()
    y[index] = 0
    work.check("y[index] = 0", y, lambda at: mod(at) * ~np.isin(at, places))


@case("float32", "bfloat16", tensors=3)
def _rows_by_index(work: Work) -> None:
    columns = 1024
    rows = work.rows(columns)
    table = work.pattern(rows, columns)
    reverse = fw.flip(fw.arange(rows, dtype="int32", device=work.device), (0,))
    fw.eval(reverse)

    def turned(at: Places) -> Any:
        return mod((rows - 1 - at // columns) * columns + at % columns)

    work.check("index_select", fw.index_select(table, 0, reverse), turned)
    work.check("embedding", fw.nn.functional.embedding(reverse, table), turned)


@case("float32", "bfloat16", tensors=4, others=8, widest=4)
def _scatter(work: Work) -> None:
    columns = 1024
    rows = work.rows(columns)
    source = work.pattern(rows, columns)
    reverse = fw.flip(fw.arange(rows, dtype="int32", device=work.device), (0,))
    fw.eval(reverse)

    def turned(at: Places) -> Any:
        return mod((rows - 1 - at // columns) * columns + at % columns)

    zeros = work.full(0, rows, columns)
    work.check("index_add", zeros.index_add(0, reverse, source), turned)
    work.check("index_copy", zeros.index_copy(0, reverse, source), turned)


@case("float32", tensors=3, others=16)
def _scatter_elements(work: Work) -> None:
    source = work.full(1, work.count)
    index = work.pattern(dtype="int32")
    sums = fw.zeros(PERIOD, device=work.device).scatter_add(0, index, source)
    each, rest = divmod(work.count, PERIOD)
    work.check("scatter_add", sums, lambda at: each + (at < rest), 1e-3)


@case("int32", "float32", tensors=2, others=4, widest=8)
def _searchsorted(work: Work) -> None:
    bounds = work.pattern(PERIOD)
    found = fw.searchsorted(bounds, work.pattern())
    work.check("searchsorted", found, mod)
    ascending = fw.arange(min(work.count, 1 << 24), dtype="int32", device=work.device)
    ascending = ascending.to(work.dtype)
    work.same(
        "in many",
        fw.searchsorted(ascending, ascending[-3:]).tolist(),
        [ascending.shape[0] - 3, ascending.shape[0] - 2, ascending.shape[0] - 1],
    )


@case("uint8", "bfloat16", tensors=2, others=1)
def _host_and_back(work: Work) -> None:
    count = min(work.count, (1 << 31) // work.itemsize + (1 << 20))
    values = np.resize(np.arange(PERIOD, dtype=np.uint8), count)
    x = fw.tensor(values, dtype="uint8", device=work.device)
    work.check("upload", x, mod)
    found = x.numpy()
    work.same("read", int(np.count_nonzero(found != values)), 0)
