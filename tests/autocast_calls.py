"""Calls whose dtypes in blocks of autocast for the host are compared with PyTorch's.

Each is given a library, its `nn.functional` and two matrices of 4x4: one of ones, and
a positive definite one.
"""

from collections.abc import Callable
from typing import Any

Call = Callable[[Any, Any, Any, Any], Any]


def shaped(x: Any, *shape: int) -> Any:
    """Return the elements of a matrix in another shape, four times."""
    return x.flatten().repeat(4).reshape(shape)


def functions(names: str, *more: Any) -> dict[str, Call]:
    """Return calls of functions with the second matrix, and what follows."""

    def named(name: str) -> Call:
        def call(lib: Any, nn: Any, a: Any, b: Any) -> Any:
            found: Any = lib
            for part in name.split("."):
                found = getattr(found, part)
            return found(b, *more)

        return call

    return {name: named(name) for name in names.split()}


CALLS = functions(
    "fft.fft fft.ifft fft.fft2 fft.rfft fft.irfft fft.fftn fft.hfft linalg.cholesky"
    " linalg.inv linalg.qr linalg.svd linalg.svdvals linalg.eigh linalg.eigvalsh"
    " linalg.eig linalg.eigvals linalg.cond linalg.matrix_rank linalg.matrix_exp"
    " cholesky inverse pinverse svd cholesky_inverse trace linalg.vector_norm"
    " linalg.matrix_norm"
)
CALLS |= functions("quantile nanquantile", 0.5)
CALLS |= functions("logcumsumexp cumsum cumprod", 0)
CALLS |= {
    "linalg.solve": lambda lib, nn, a, b: lib.linalg.solve(b, a),
    "linalg.lstsq": lambda lib, nn, a, b: lib.linalg.lstsq(b, a)[0],
    "linalg.vecdot": lambda lib, nn, a, b: lib.linalg.vecdot(a, b),
    "linalg.multi_dot": lambda lib, nn, a, b: lib.linalg.multi_dot([a, b]),
    "linalg.householder_product": lambda lib, nn, a, b: lib.linalg.householder_product(
        b, b[0]
    ),
    "linalg.tensorinv": lambda lib, nn, a, b: lib.linalg.tensorinv(
        b.reshape(2, 2, 2, 2)
    ),
    "cholesky_solve": lambda lib, nn, a, b: lib.cholesky_solve(a, b),
    "triangular_solve": lambda lib, nn, a, b: lib.triangular_solve(a, b),
    "addbmm": lambda lib, nn, a, b: lib.addbmm(a, a[None], b[None]),
    "addmv": lambda lib, nn, a, b: lib.addmv(a[0], b, a[0]),
    "addr": lambda lib, nn, a, b: lib.addr(a, b[0], b[0]),
    "cdist": lambda lib, nn, a, b: lib.cdist(a, b),
    "polar": lambda lib, nn, a, b: lib.polar(a, a),
    "stft": lambda lib, nn, a, b: lib.stft(
        shaped(b, 64), 8, window=lib.ones(8), return_complex=True
    ),
    "view_as_complex": lambda lib, nn, a, b: lib.view_as_complex(b.reshape(8, 2)),
    "index_copy": lambda lib, nn, a, b: lib.index_copy(
        a, 0, lib.zeros(4, dtype=lib.int64), b.float()
    ),
    "stack of two": lambda lib, nn, a, b: lib.stack([a, b.float()]),
    "reflect 1": lambda lib, nn, a, b: nn.pad(b[None], (1, 1), mode="reflect"),
    "reflect 2": lambda lib, nn, a, b: nn.pad(b[None], (1, 1, 1, 1), mode="reflect"),
    "replicate": lambda lib, nn, a, b: nn.pad(b[None], (1, 1), mode="replicate"),
    "circular": lambda lib, nn, a, b: nn.pad(b[None], (1, 1), mode="circular"),
    "avg_pool3d": lambda lib, nn, a, b: nn.avg_pool3d(shaped(b, 1, 1, 4, 4, 4), 2),
    "max_pool3d": lambda lib, nn, a, b: nn.max_pool3d(shaped(b, 1, 1, 4, 4, 4), 2),
    "adaptive_avg_pool3d": lambda lib, nn, a, b: nn.adaptive_avg_pool3d(
        shaped(b, 1, 1, 4, 4, 4), 2
    ),
    "adaptive_max_pool3d": lambda lib, nn, a, b: nn.adaptive_max_pool3d(
        shaped(b, 1, 1, 4, 4, 4), 2
    ),
    "fractional_max_pool2d": lambda lib, nn, a, b: nn.fractional_max_pool2d(
        shaped(b, 1, 1, 8, 8), 2, output_size=3
    ),
    "conv3d": lambda lib, nn, a, b: nn.conv3d(
        shaped(b, 1, 1, 4, 4, 4), a[:2].reshape(1, 1, 2, 2, 2)
    ),
    "conv_transpose3d": lambda lib, nn, a, b: nn.conv_transpose3d(
        shaped(b, 1, 1, 4, 4, 4), a[:2].reshape(1, 1, 2, 2, 2)
    ),
    "local_response_norm": lambda lib, nn, a, b: nn.local_response_norm(
        shaped(b, 1, 4, 4, 4), 2
    ),
    "affine_grid": lambda lib, nn, a, b: nn.affine_grid(
        b[:2, :3][None], (1, 1, 2, 2), align_corners=False
    ),
    "grid_sample": lambda lib, nn, a, b: nn.grid_sample(
        b[None, None], a[:2].reshape(1, 2, 2, 2), align_corners=False
    ),
    "multi_margin_loss": lambda lib, nn, a, b: nn.multi_margin_loss(
        b, lib.zeros(4, dtype=lib.int64)
    ),
    "soft_margin_loss": lambda lib, nn, a, b: nn.soft_margin_loss(b, a),
    "poisson_nll_loss": lambda lib, nn, a, b: nn.poisson_nll_loss(b, a),
    "cosine_embedding_loss": lambda lib, nn, a, b: nn.cosine_embedding_loss(b, a, a[0]),
    "triplet_margin_loss": lambda lib, nn, a, b: nn.triplet_margin_loss(b, a, a),
    "ctc_loss": lambda lib, nn, a, b: nn.ctc_loss(
        b[:, None].log_softmax(2),
        lib.ones(1, 2, dtype=lib.int64),
        lib.tensor([4]),
        lib.tensor([2]),
    ),
}
