"""Arguments of factorisations and solutions, by name; see `calls`."""

from __future__ import annotations

from .forms import Call, Given, Make, ShapeClass, call


def _sizes(form: ShapeClass) -> tuple[int, ...] | None:
    """Return batch and order of square matrices."""
    return {
        "contiguous": form.pick((512,), (48,)),
        "tiny": (4,),
        "odd": form.pick((137,), (21,)),
        "batched": form.pick((256, 32), (8, 8)),
    }.get(form.name)


def _square(*kinds: str, kind: str = "regular") -> Make:
    """Return the entry of a function of square matrices; `kinds` are further ones."""

    def make(form: ShapeClass) -> Call | None:
        sizes = _sizes(form)
        if sizes is None:
            return None
        shape = (*sizes, sizes[-1])
        given = [
            Given(shape, kind=each, seed=seed)
            for seed, each in enumerate((kind, *kinds))
        ]
        return call(*given)

    return make


def _power(form: ShapeClass) -> Call | None:
    """Return the arguments of `matrix_power`."""
    found = _square()(form)
    return None if found is None else call(found.args[0], 3)


def _reflections(form: ShapeClass) -> Call | None:
    """Return the arguments of `householder_product`: vectors and their factors."""
    sizes = _sizes(form)
    if sizes is None:
        return None
    # Short vectors, as products of reflections that stretch overflow.
    vectors = Given((*sizes, sizes[-1]), -0.05, 0.05)
    return call(vectors, Given(sizes, 0.5, 1.0, seed=1))


def _pivoted(*kinds: str) -> Make:
    """Return the entry of a function of LU factors and their pivots."""

    def make(form: ShapeClass) -> Call | None:
        found = _square(*kinds)(form)
        if found is None:
            return None
        factors, *others = found.args
        *batch, size, _ = factors.shape
        pivots = Given((*batch, size), 1, size + 1, "int32", seed=1)
        return call(factors, pivots, *others)

    return make


def _pivoted_last(form: ShapeClass) -> Call | None:
    """Return the arguments of `lu_solve`: right sides, factors and pivots."""
    found = _pivoted("uniform")(form)
    return None if found is None else call(found.args[-1], *found.args[:-1])


def _single(form: ShapeClass) -> Given | None:
    """Return one matrix, of the classes without batches."""
    found = _square()(form)
    matrix: Given | None = None if found is None else found.args[0]
    return matrix if matrix is not None and len(matrix.shape) == 2 else None


def _tensor_solve(form: ShapeClass) -> Call | None:
    """Return the arguments of `tensorsolve`: a matrix and a vector."""
    matrix = _single(form)
    return None if matrix is None else call(matrix, Given(matrix.shape[:1], seed=1))


def _tensor_inverse(form: ShapeClass) -> Call | None:
    """Return the arguments of `tensorinv`, which takes a matrix as one."""
    matrix = _single(form)
    return None if matrix is None else call(matrix, ind=1)


# Everything here has arguments of its own: PyTorch 2.11 was still at a singular matrix
# of 4096 equal columns after six minutes (NVIDIA H200, 580.159.04, 2026-12-01).
LINEAR_ALGEBRA: dict[str, Make] = {
    "matrix_power": _power,
    "linalg.matrix_power": _power,
    **{
        name: _square()
        for name in (
            "slogdet inverse linalg.inv linalg.inv_ex pinverse linalg.pinv"
            " linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.slogdet"
            " linalg.eig linalg.eigvals linalg.qr qr linalg.svd svd nuclear_norm"
            " linalg.svdvals linalg.matrix_rank linalg.cond".split()
        )
    },
    "det": _square(kind="unit"),
    "linalg.det": _square(kind="unit"),
    "logdet": _square(kind="definite"),
    "cholesky": _square(kind="definite"),
    "linalg.cholesky": _square(kind="definite"),
    "linalg.cholesky_ex": _square(kind="definite"),
    "cholesky_inverse": _square(kind="lower"),
    "cholesky_solve": _square("lower"),
    "linalg.solve": _square("uniform"),
    "linalg.solve_ex": _square("uniform"),
    "linalg.solve_triangular": lambda f: (
        None
        if (found := _square("uniform", kind="upper")(f)) is None
        else Call(found.args, {"upper": True})
    ),
    "triangular_solve": _square("upper", kind="uniform"),
    "linalg.householder_product": _reflections,
    "linalg.eigh": _square(kind="definite"),
    # The gradient is of eigenvectors, which are as uncertain as values are close.
    "linalg.eigvalsh": _square(kind="separate"),
    "linalg.matrix_exp": _square(kind="uniform"),
    "matrix_exp": _square(kind="uniform"),
    "linalg.lstsq": _square("uniform"),
    "lu_unpack": _pivoted(),
    "lu_solve": _pivoted_last,
    "linalg.lu_solve": _pivoted("uniform"),
    "linalg.tensorsolve": _tensor_solve,
    "linalg.tensorinv": _tensor_inverse,
}
