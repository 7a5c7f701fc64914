"""Arguments of the functions whose declarations do not say enough, by name.

Each entry takes a shape class and returns the arguments, or None where the class says
nothing for that function. One table in the order of kinds, so it is longer than most
files; what shares a form shares a maker.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .forms import (
    Call,
    Given,
    Make,
    ShapeClass,
    call,
    first,
    mask,
    operand,
    other,
    whole,
)
from .linear_algebra_calls import LINEAR_ALGEBRA


def _matrix(make: Make) -> Make:
    """Keep the classes that are matrices."""
    return lambda form: make(form) if len(form.shape) == 2 else None


def _some(names: str, make: Make) -> Make:
    """Keep some classes."""
    kept = names.split()
    return lambda form: make(form) if form.name in kept else None


def products(form: ShapeClass) -> tuple[int, int, int]:
    """Return rows, inner size and columns of a matrix product."""
    full = {
        "contiguous": (2048, 2048, 2048),
        "transposed": (2048, 2048, 2048),
        "broadcast": (1024, 4096, 1024),
        "tiny": (16, 16, 16),
        "rows": (1 << 20, 16, 16),
        "columns": (64, 1 << 20, 64),
        "long": (16, 4096, 4096),
        "batched": (1024, 64, 1024),
        "odd": (1021, 2053, 509),
    }
    small = {
        "contiguous": (128, 128, 128),
        "transposed": (128, 128, 128),
        "broadcast": (64, 256, 64),
        "tiny": (4, 4, 4),
        "rows": (8192, 16, 16),
        "columns": (16, 8192, 16),
        "long": (4, 512, 512),
        "batched": (64, 16, 64),
        "odd": (61, 131, 37),
    }
    return (full if form.full else small)[form.name]


def _factors(form: ShapeClass) -> tuple[Given, Given]:
    m, k, n = products(form)
    layout = "transposed" if form.name == "transposed" else "plain"
    return Given((m, k)), Given((k, n), layout=layout, seed=1)


def _batches(form: ShapeClass) -> tuple[Given, Given]:
    m, k, n = products(form)
    count = {"batched": form.pick(96, 8), "contiguous": 2}.get(form.name, 4)
    if form.name in ("rows", "columns"):
        count = 1
    a, b = _factors(form)
    return replace(a, shape=(count, m, k)), replace(b, shape=(count, k, n))


def _added(form: ShapeClass) -> Call:
    m, _, n = products(form)
    return call(Given((m, n), seed=2), *_factors(form))


def _added_batches(form: ShapeClass) -> Call:
    a, b = _batches(form)
    shape = (*a.shape[:-1], b.shape[-1])
    return call(Given(shape, seed=2), a, b)


def _vectors(count: int = 2) -> Make:
    """Return the entry of a function of vectors."""

    def make(form: ShapeClass) -> Call | None:
        if form.name not in ("contiguous", "tiny", "long", "odd"):
            return None
        size = form.count
        return call(*(Given((size,), seed=seed) for seed in range(count)))

    return make


def _axis(form: ShapeClass) -> tuple[int, int]:
    """Return a dimension to index, the long one, and its size."""
    dim = form.shape.index(max(form.shape))
    return dim, form.shape[dim]


def _rows_index(form: ShapeClass) -> tuple[int, Given]:
    dim, size = _axis(form)
    return dim, whole(size, below=size)


def _source(form: ShapeClass) -> Given:
    return Given(form.shape, seed=1)


def _each_index(form: ShapeClass) -> tuple[int, Given]:
    dim, size = _axis(form)
    return dim, whole(*form.shape, below=size)


def _distinct(form: ShapeClass) -> Given:
    return replace(first(form), kind="distinct")


def _flat(form: ShapeClass) -> Given:
    return Given((form.count,))


_RARE = "contiguous tiny odd transposed"
_DATA = "contiguous tiny odd long rows"
_LINES = "contiguous tiny odd rows columns batched transposed"


def _split(form: ShapeClass) -> Call:
    return call(first(form), max(1, form.shape[0] // 4))


def _pieces(form: ShapeClass) -> Call:
    quarter = form.shape[0] // 4
    sizes = [quarter, form.shape[0] - quarter]
    return call(first(form), sizes)


def _shifts(form: ShapeClass) -> Call:
    return call(first(form), 3, -1)


def _wave(form: ShapeClass) -> Call | None:
    if form.name not in ("contiguous", "tiny", "odd"):
        return None
    count = {"tiny": 256, "odd": form.pick(99991, 4999)}.get(form.name)
    length = count or form.pick(1 << 20, 1 << 14)
    window = 64 if form.name == "tiny" else form.pick(1024, 256)
    return call(
        Given((form.pick(8, 2), length)),
        window,
        window // 4,
        window=Given((window,), 0.1, 0.9, seed=1),
        return_complex=True,
    )


def _unwave(form: ShapeClass) -> Call | None:
    if form.name not in ("contiguous", "tiny"):
        return None
    window = 64 if form.name == "tiny" else form.pick(1024, 256)
    frames = 9 if form.name == "tiny" else form.pick(513, 65)
    weights = Given((window,), 0.5, 0.9, "float32", seed=1)
    spectrum = Given((2, window // 2 + 1, frames))
    return call(spectrum, window, window // 4, window=weights)


def _triples(form: ShapeClass) -> Call | None:
    """Return the arguments of `cross`."""
    return call(*(Given((form.count // 3, 3), seed=seed) for seed in range(2)), dim=-1)


def _points(form: ShapeClass) -> tuple[Given, Given] | None:
    sizes = {
        "contiguous": form.pick((2048, 64), (128, 16)),
        "tiny": (8, 4),
        "odd": form.pick((1021, 13), (61, 7)),
        "rows": form.pick((4096, 3), (256, 3)),
    }.get(form.name)
    if sizes is None:
        return None
    return Given(sizes), Given(sizes, seed=1)


def _spectra(inverse: bool = False) -> Make:
    def make(form: ShapeClass) -> Call | None:
        if form.name not in ("contiguous", "tiny", "rows", "batched", "columns"):
            return None
        dtype = "complex64" if inverse else None
        return call(replace(first(form), dtype=dtype))

    return make


CALLS: dict[str, Make] = {
    # Products.
    "mm": lambda f: call(*_factors(f)),
    "matmul": lambda f: call(*_factors(f)),
    "bmm": lambda f: call(*_batches(f)),
    "addmm": _added,
    "baddbmm": _added_batches,
    "addbmm": lambda f: call(
        Given((_batches(f)[0].shape[-2], _batches(f)[1].shape[-1]), seed=2),
        *_batches(f),
    ),
    "linear": lambda f: call(
        _factors(f)[0],
        Given(tuple(reversed(_factors(f)[1].shape)), seed=1),
        Given((products(f)[2],), seed=2),
    ),
    "bilinear": _some(
        "contiguous tiny odd",
        lambda f: call(
            Given((f.pick(256, 32), 32)),
            Given((f.pick(256, 32), 24), seed=1),
            Given((f.pick(64, 8), 32, 24), seed=2),
        ),
    ),
    "mv": _matrix(lambda f: call(first(f), Given(f.shape[1:], seed=1))),
    "addmv": _matrix(
        lambda f: call(Given(f.shape[:1], seed=2), first(f), Given(f.shape[1:], seed=1))
    ),
    "addr": _matrix(
        lambda f: call(first(f), Given(f.shape[:1], seed=1), Given(f.shape[1:], seed=2))
    ),
    "outer": _matrix(lambda f: call(Given(f.shape[:1]), Given(f.shape[1:], seed=1))),
    "dot": _vectors(),
    "vdot": _vectors(),
    "inner": lambda f: call(
        _factors(f)[0], Given(tuple(reversed(_factors(f)[1].shape)), seed=1)
    ),
    "tensordot": lambda f: call(*_factors(f), 1),
    "chain_matmul": lambda f: call(*_factors(f), Given((products(f)[2], 16), seed=2)),
    "linalg.multi_dot": lambda f: call(
        [*_factors(f), Given((products(f)[2], 16), seed=2)]
    ),
    "einsum": lambda f: call("ij,jk->ik", *_factors(f)),
    "kron": _some(
        "contiguous tiny odd",
        lambda f: call(
            Given((f.pick(64, 16), 16)), Given((f.pick(64, 16), 32), seed=1)
        ),
    ),
    "int_mm": lambda f: call(
        *(replace(each, dtype="int8", low=-9, high=9) for each in _factors(f))
    ),
    "block_diag": _some(
        "contiguous tiny odd",
        lambda f: call(*(Given((f.pick(512, 64), 33 + s), seed=s) for s in range(3))),
    ),
    "cdist": lambda f: None if (p := _points(f)) is None else call(*p),
    "pdist": lambda f: None if (p := _points(f)) is None else call(p[0]),
    "cov": _some(
        "contiguous tiny odd",
        lambda f: call(Given((f.pick(512, 32), f.pick(4096, 256)))),
    ),
    "corrcoef": _some(
        "contiguous tiny odd",
        lambda f: call(Given((f.pick(512, 32), f.pick(4096, 256)))),
    ),
    # Views, copies and movement.
    "as_strided": lambda f: call(_flat(f), (f.count // 4, 2), (2, 1)),
    "as_strided_copy": lambda f: call(_flat(f), (f.count // 4, 2), (2, 1)),
    "as_strided_scatter": lambda f: call(
        _flat(f), Given((f.count // 4, 2), seed=1), (f.count // 4, 2), (2, 1)
    ),
    "broadcast_to": _matrix(lambda f: call(Given((f.shape[0], 1)), f.shape)),
    "expand": _matrix(lambda f: call(Given((f.shape[0], 1)), f.shape)),
    "expand_copy": _matrix(lambda f: call(Given((f.shape[0], 1)), f.shape)),
    "cartesian_prod": _some(
        "contiguous tiny odd",
        lambda f: call(*(Given((f.pick(2000, 200),), seed=s) for s in range(2))),
    ),
    "combinations": _some(
        "contiguous tiny odd", lambda f: call(Given((f.pick(2000, 200),)))
    ),
    "meshgrid": _some(
        "contiguous tiny odd",
        lambda f: call(
            *(Given((f.pick(2000, 200),), seed=s) for s in range(2)), indexing="ij"
        ),
    ),
    "channel_shuffle": _some("batched", lambda f: call(first(f), 4)),
    "pixel_shuffle": _some("batched", lambda f: call(first(f), 2)),
    "pixel_unshuffle": _some("batched", lambda f: call(first(f), 2)),
    "constant_pad_nd": lambda f: call(first(f), (1, 2)),
    "pad": lambda f: call(first(f), (1, 2)),
    "chunk": lambda f: call(first(f), 4),
    "cross": _triples,
    "linalg.cross": _triples,
    "clamp": lambda f: call(first(f), -0.5, 0.5),
    "logsumexp": lambda f: call(first(f), -1),
    "addcmul": lambda f: call(*(operand(f, n, None, None) for n in range(3)), value=2),
    "addcdiv": lambda f: call(*(operand(f, n, 0.1, 0.9) for n in range(3)), value=2),
    "diag": _matrix(lambda f: call(first(f))),
    "diag_embed": _some(
        "contiguous tiny odd", lambda f: call(Given((f.pick(64, 4), f.pick(512, 99))))
    ),
    "diagflat": _some(
        "contiguous tiny odd", lambda f: call(Given((f.pick(4001, 301),)))
    ),
    "diagonal_scatter": _matrix(
        lambda f: call(first(f), Given((min(f.shape),), seed=1))
    ),
    "dsplit": _some("batched", lambda f: call(first(f), 4)),
    "flip": lambda f: call(first(f), (-1,)),
    "gradient": lambda f: call(first(f), dim=-1),
    "hsplit": _some("contiguous batched", lambda f: call(first(f), 4)),
    "vsplit": _some("contiguous batched", lambda f: call(first(f), 4)),
    "movedim": _matrix(lambda f: call(first(f), 0, 1)),
    "narrow": lambda f: call(first(f), 0, 1, f.shape[0] // 2),
    "narrow_copy": lambda f: call(first(f), 0, 1, f.shape[0] // 2),
    "permute": lambda f: call(first(f), tuple(reversed(range(len(f.shape))))),
    "permute_copy": lambda f: call(first(f), tuple(reversed(range(len(f.shape))))),
    "renorm": _matrix(lambda f: call(first(f), 2, 0, 1.0)),
    "repeat": _matrix(lambda f: call(Given((f.shape[0], f.shape[1] // 4)), 1, 4)),
    "repeat_interleave": _matrix(
        lambda f: call(Given((f.shape[0], max(1, f.shape[1] // 4))), 4, 1)
    ),
    "reshape": lambda f: call(first(f), (-1,)),
    "roll": _shifts,
    "rot90": _matrix(lambda f: call(first(f))),
    "select": lambda f: call(first(f), 0, 1),
    "select_copy": lambda f: call(first(f), 0, 1),
    "select_scatter": lambda f: call(first(f), Given(f.shape[1:], seed=1), 0, 1),
    "slice_copy": lambda f: call(first(f), 0, 1, f.shape[0], 2),
    "slice_scatter": lambda f: call(
        first(f),
        Given((f.shape[0] // 2, *f.shape[1:]), seed=1),
        0,
        0,
        f.shape[0] // 2,
    ),
    "split": _split,
    "split_copy": _split,
    "split_with_sizes": _pieces,
    "split_with_sizes_copy": _pieces,
    "sum_to_size": _matrix(lambda f: call(first(f), (1, f.shape[1]))),
    "swapaxes": _matrix(lambda f: call(first(f), 0, 1)),
    "transpose": _matrix(lambda f: call(first(f), 0, 1)),
    "transpose_copy": _matrix(lambda f: call(first(f), 0, 1)),
    "t": _matrix(lambda f: call(first(f))),
    "t_copy": _matrix(lambda f: call(first(f))),
    "adjoint": _matrix(lambda f: call(first(f))),
    "tensor_split": lambda f: call(first(f), 3),
    "tile": _matrix(lambda f: call(Given((f.shape[0], f.shape[1] // 4)), (1, 4))),
    "trace": _matrix(lambda f: call(first(f))),
    "tril": _matrix(lambda f: call(first(f))),
    "triu": _matrix(lambda f: call(first(f))),
    "unbind": _some("columns tiny", lambda f: call(first(f))),
    "unbind_copy": _some("columns tiny", lambda f: call(first(f))),
    "unflatten": _some("contiguous tiny", lambda f: call(first(f), -1, (4, -1))),
    "unfold_copy": _some(_RARE, lambda f: call(first(f), 1, 4, 2)),
    "vander": _some("contiguous tiny odd", lambda f: call(_flat(f), 4)),
    "view_as_complex": lambda f: call(Given((f.count // 2, 2))),
    "view_as_real": lambda f: call(Given(f.shape, dtype="complex64")),
    "view_copy": lambda f: call(_flat(f), f.shape),
    "real": lambda f: call(Given(f.shape, dtype="complex64")),
    "imag": lambda f: call(Given(f.shape, dtype="complex64")),
    "angle": lambda f: call(Given(f.shape, dtype="complex64")),
    "complex": lambda f: call(Given(f.shape), Given(f.shape, seed=1)),
    "polar": lambda f: call(Given(f.shape, 0.1, 1), Given(f.shape, seed=1)),
    "fill": lambda f: call(first(f), 0.5),
    "full_like": lambda f: call(first(f), 0.5),
    "randint_like": lambda f: call(first(f), 9),
    # Indexing.
    "gather": lambda f: call(first(f), *_each_index(f)),
    "take": lambda f: call(first(f), whole(f.count, below=f.count)),
    "take_along_dim": lambda f: call(first(f), _each_index(f)[1], _axis(f)[0]),
    "index_select": lambda f: call(first(f), *_rows_index(f)),
    "index_add": lambda f: call(first(f), *_rows_index(f), _source(f)),
    "index_copy": lambda f: call(
        first(f),
        _axis(f)[0],
        Given((_axis(f)[1],), dtype="int64", kind="permutation"),
        _source(f),
    ),
    "index_fill": lambda f: call(first(f), *_rows_index(f), 0.5),
    "index_put": lambda f: call(
        first(f),
        (Given((f.shape[0],), dtype="int64", kind="permutation"),),
        _source(f),
    ),
    "index_reduce": lambda f: call(first(f), *_rows_index(f), _source(f), "amax"),
    "scatter": lambda f: call(first(f), *_each_index(f), 0.5),
    "scatter_add": lambda f: call(first(f), *_each_index(f), _source(f)),
    "scatter_reduce": lambda f: call(first(f), *_each_index(f), _source(f), "amax"),
    "put": lambda f: call(
        first(f),
        Given((f.count,), dtype="int64", kind="permutation"),
        Given((f.count,), seed=1),
    ),
    "masked_fill": lambda f: call(first(f), mask(*f.shape), 0.5),
    "masked_select": lambda f: call(first(f), mask(*f.shape)),
    "masked_scatter": lambda f: call(first(f), mask(*f.shape), _source(f)),
    "where": lambda f: call(mask(*f.shape), first(f), other(f, 1)),
    "nonzero": _some(_DATA, lambda f: call(mask(*f.shape))),
    "argwhere": _some(_DATA, lambda f: call(mask(*f.shape))),
    "unravel_index": _some(
        _DATA, lambda f: call(whole(f.count, below=f.count), f.shape)
    ),
    "one_hot": _some(
        "contiguous tiny odd",
        lambda f: call(whole(f.pick(1 << 16, 1 << 10), below=100), 100),
    ),
    "embedding": lambda f: (
        call(
            whole(f.shape[0], f.pick(8, 4), below=f.shape[0]),
            Given((f.shape[0], f.shape[-1] if len(f.shape) > 1 else 1)),
        )
        if f.count // f.shape[0] < 8192
        else None
    ),
    "embedding_bag": _some(
        "contiguous tiny odd rows",
        lambda f: call(whole(f.shape[0], 4, below=f.shape[0]), Given(f.shape)),
    ),
    # Sorting, searching, counting.
    "bincount": _some(
        "contiguous tiny odd long", lambda f: call(whole(f.count, below=1000))
    ),
    "histc": _some("contiguous tiny odd long", lambda f: call(first(f), 100, -1, 1)),
    "histogram": _some(
        "contiguous tiny odd long", lambda f: call(first(f), 100, range=(-1.0, 1.0))
    ),
    "searchsorted": _some(
        "contiguous tiny odd long",
        lambda f: call(Given((f.pick(1 << 16, 1 << 10),), kind="sorted"), first(f)),
    ),
    "bucketize": _some(
        "contiguous tiny odd long",
        lambda f: call(
            first(f), Given((f.pick(1 << 10, 1 << 6),), kind="sorted", seed=1)
        ),
    ),
    "isin": _some(
        "contiguous tiny odd long",
        lambda f: call(
            Given(f.shape, 0, 1000, "int64"), Given((100,), 0, 1000, "int64", seed=1)
        ),
    ),
    "unique": _some(
        "contiguous tiny odd long", lambda f: call(Given(f.shape, 0, 9999, "int64"))
    ),
    "unique_consecutive": _some(
        "contiguous tiny odd long", lambda f: call(Given(f.shape, 0, 3, "int64"))
    ),
    "sort": _some(_LINES + " long", lambda f: call(first(f))),
    "argsort": _some(_LINES + " long", lambda f: call(first(f))),
    "msort": _some(_LINES, lambda f: call(first(f))),
    # Which of equal elements has the gradient is not said.
    "topk": _some(
        _LINES + " long", lambda f: call(_distinct(f), min(8, f.shape[-1]), -1)
    ),
    "kthvalue": _some(_LINES + " long", lambda f: call(_distinct(f), 3)),
    "median": _some(_LINES + " long", lambda f: call(first(f), -1)),
    "nanmedian": _some(_LINES + " long", lambda f: call(first(f), -1)),
    "mode": _some(
        "contiguous tiny odd rows",
        lambda f: call(
            Given(f.shape if f.shape[-1] < 9999 else (64, 999), 0, 9, "int64")
        ),
    ),
    "quantile": _some("contiguous tiny odd rows", lambda f: call(first(f), 0.3, -1)),
    "nanquantile": _some("contiguous tiny odd rows", lambda f: call(first(f), 0.3, -1)),
    "multinomial": _some("tiny odd", lambda f: call(Given(f.shape, 0.1, 1), 3)),
    "gcd": lambda f: call(Given(f.shape, 1, 99), Given(f.shape, 1, 99, seed=1)),
    "lcm": lambda f: call(Given(f.shape, 1, 9), Given(f.shape, 1, 9, seed=1)),
    "cumulative_trapezoid": lambda f: call(first(f)),
    "allclose": lambda f: call(Given(f.shape), Given(f.shape)),
    "equal": lambda f: call(Given(f.shape), Given(f.shape, seed=1)),
    "pow": lambda f: call(Given(f.shape, 0.1, 2), Given(f.shape, 1, 3, seed=1)),
    # What `creation` has.
    **{
        name: _some("long tiny odd", lambda f: call(_flat(f)))
        for name in "arange linspace full eye rand randn randint randperm"
        " exponential".split()
    },
    "contiguous": _some("transposed broadcast", lambda f: call(first(f))),
    "total_norm": _some(
        "contiguous tiny", lambda f: call(*(Given(f.shape, seed=s) for s in range(8)))
    ),
    **{
        f"nn.{name}": _some(
            "contiguous tiny",
            lambda f: call(
                Given(
                    (4, 2, 8)
                    if f.name == "tiny"
                    else f.pick((64, 64, 256), (16, 8, 32))
                )
            ),
        )
        for name in ("LSTM", "GRU", "RNN")
    },
    "rope": _some(
        "contiguous tiny odd",
        lambda f: call(Given((f.pick(8, 2), 16, f.pick(1024, 64), 64))),
    ),
    # Signals.
    "stft": _wave,
    "istft": _unwave,
    "fft.fft": _spectra(True),
    "fft.ifft": _spectra(True),
    "fft.fft2": _spectra(True),
    "fft.ifft2": _spectra(True),
    **dict.fromkeys(["fft.rfft", "fft.rfft2", "fft.ihfft"], _spectra()),
    "fft.irfft": _spectra(True),
    "fft.fftshift": _spectra(),
    "fft.ifftshift": _spectra(),
    "fft.hfft": _spectra(True),
    **LINEAR_ALGEBRA,
    "linalg.matrix_norm": lambda f: call(first(f)) if len(f.shape) > 1 else None,
    "linalg.vecdot": lambda f: call(first(f), _source(f)),
    # As many powers as the last dimension has elements are too many for a device.
    "linalg.vander": _some(_DATA + " batched", lambda f: call(first(f), N=4)),
}


@dataclass(frozen=True)
class Options:
    """What differs for a function.

    Attributes
    ----------
    low, high : float or None
        Range of the elements of float tensors.
    compared : bool
        Whether results are compared: not those that are random, or one of several.
    results : int or None
        How many of the results are compared, from the first.
    peer_gradients : bool
        Whether the peer's gradients are the derivatives, so that they are compared.
    dtypes : tuple of str or None
        Dtypes, instead of those of the declaration.
    """

    low: float | None = None
    high: float | None = None
    compared: bool = True
    results: int | None = None
    peer_gradients: bool = True
    dtypes: tuple[str, ...] | None = None


_POSITIVE = """
    log log2 log10 log1p sqrt rsqrt lgamma digamma logit erfinv xlogy special.xlog1py
    igamma igammac polygamma binary_cross_entropy gamma_draw_slope special.entr
    special.ndtri poisson_nll_loss reciprocal bernoulli poisson float_power
    gamma_from_key poisson_from_key prod cumprod logcumsumexp div
"""
_RANDOM = """
    bernoulli poisson multinomial dropout dropout1d dropout2d dropout3d
    alpha_dropout feature_dropout feature_alpha_dropout rrelu gumbel_softmax
    rand randn randint randperm exponential nn.LSTM nn.GRU nn.RNN
    rand_like randn_like randint_like fractional_max_pool2d
    fractional_max_pool3d fractional_max_pool2d_with_indices argsort
    fractional_max_pool3d_with_indices linalg.qr qr linalg.svd linalg.eigh svd
    linalg.eig linalg.eigvals
    svd_lowrank pca_lowrank binomial
"""
# PyTorch 2.13's are of a triangle that the function does not read, lost where
# reflections are not orthogonal, or of few digits: of near singular values.
_OWN_GRADIENTS = """
    cholesky_inverse cholesky_solve linalg.householder_product linalg.svdvals"""
_FIRST = "sort topk kthvalue median nanmedian mode max min cummax cummin msort"
_FLOAT = ("float32", "float16", "bfloat16")
_FACTORED = ("float32", "float64")

OPTIONS: dict[str, Options] = {
    **{name: Options(0.1, 0.9) for name in _POSITIVE.split()},
    **{name: Options(compared=False) for name in _RANDOM.split()},
    **{name: Options(results=1) for name in _FIRST.split()},
    **{
        name: Options(
            dtypes=_FACTORED,
            compared=name not in _RANDOM.split(),
            peer_gradients=name not in _OWN_GRADIENTS.split(),
        )
        for name, make in CALLS.items()
        if name.startswith("linalg.")
        or (name in LINEAR_ALGEBRA and name != "matrix_power")
    },
    "acosh": Options(1.1, 3),
    # PyTorch 2.13 gives the replaced elements the gradient, and the others none.
    "as_strided_scatter": Options(peer_gradients=False),
    "mvlgamma": Options(2, 4),
    # At whole numbers but 0 the result is the rounding of pi.
    "sinc": Options(0, 2),
    # PyTorch 2.11 gives elements beside the diagonal of tall matrices a gradient.
    "trace": Options(peer_gradients=False),
    "special.zeta": Options(1.5, 4),
    "bernoulli": Options(0.1, 0.9, compared=False),
    "poisson": Options(0.1, 9, compared=False, dtypes=("float32",)),
    "multinomial": Options(0.1, 0.9, compared=False, dtypes=("float32",)),
    # Of all elements of a long tensor the product must not vanish.
    "prod": Options(0.99, 1.01),
    "cumprod": Options(0.9, 1.1),
    "one_hot": Options(dtypes=("int64",)),
    "bincount": Options(dtypes=("int64",)),
    "isin": Options(dtypes=("int64",)),
    "unique": Options(dtypes=("int64",)),
    "unique_consecutive": Options(dtypes=("int64",)),
    "mode": Options(dtypes=("int64",), results=1),
    "nonzero": Options(dtypes=("bool",)),
    "argwhere": Options(dtypes=("bool",)),
    "unravel_index": Options(dtypes=("int64",)),
    "int_mm": Options(dtypes=("int8",)),
    "gcd": Options(dtypes=("int64", "int32")),
    "lcm": Options(dtypes=("int64", "int32")),
    **{
        name: Options(dtypes=("complex64",))
        for name in (
            "view_as_real real imag angle istft fft.fft fft.ifft fft.fft2 fft.ifft2"
            " fft.irfft fft.hfft conj_physical".split()
        )
    },
    **{
        name: Options(dtypes=("float32",))
        for name in (
            "complex polar view_as_complex stft fft.rfft fft.rfft2 fft.ihfft cdist"
            " fft.fftn fft.ifftn fft.rfftn fft.irfft2 fft.irfftn fft.hfft2 fft.hfftn"
            " fft.ihfft2 fft.ihfftn histc histogram pdist quantile nanquantile cov"
            " corrcoef".split()
        )
    },
    **{name: Options(dtypes=_FLOAT) for name in "linear bilinear einsum".split()},
    # Of float64 they are complex128, which devices do not have.
    **{
        name: Options(compared=False, dtypes=("float32",))
        for name in ("linalg.eig", "linalg.eigvals")
    },
}
