"""Normal distributions of vectors, by covariance or by factors of low rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from .. import ops
from ..base.shape import broadcast_shapes
from ..ops import linear_algebra as linalg
from ..tensor.sequences import eye
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import LOG_2_PI, Distribution, lazy_property


def squared_distance(tril: Tensor, x: Tensor) -> Tensor:
    """Return x^T (L L^T)^-1 x over the batches of both.

    Parameters
    ----------
    tril : Tensor, shape (..., n, n)
        Lower triangle L.
    x : Tensor, shape (..., n)
    """
    solved = linalg.solve_triangular(tril, x.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).square().sum(-1)


def log_diagonal(tril: Tensor) -> Tensor:
    """Return the sum of the logarithms of a matrix's diagonal."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def tril_of_precision(precision: Tensor) -> Tensor:
    """Return the Cholesky factor of a matrix's inverse."""
    # The factor of the reversed matrix, reversed, is an upper one of the matrix.
    reverse = linalg.cholesky(precision.flip((-2, -1)))
    upper = reverse.flip((-2, -1)).mT
    size = precision.shape[-1]
    identity = eye(size, dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(upper, identity, upper=False)


class ByCovariance(Distribution):
    """Distribution with a positive definite matrix, given in one of three forms."""

    _unbroadcasted_scale_tril: Tensor
    _number_error: ClassVar[type[Exception]] = ValueError

    def _one_matrix(
        self, covariance: Tensor | None, precision: Tensor | None, tril: Tensor | None
    ) -> tuple[str, Tensor]:
        """Return the form that is given, by its name."""
        names = ("covariance_matrix", "precision_matrix", "scale_tril")
        forms = zip(names, (covariance, precision, tril))
        given = [(name, each) for name, each in forms if each is not None]
        where = type(self).__name__
        if len(given) != 1:
            raise self._number_error(
                f"{where}: {len(given)} of {', '.join(names)} are given; give one"
            )
        name, matrix = given[0]
        if matrix.ndim < 2:
            raise ValueError(
                f"{where}: {name} is {tuple(matrix.shape)}; it must have at least 2"
                " dimensions"
            )
        return name, matrix

    def _take_factor(self, name: str, matrix: Tensor) -> None:
        """Keep the factor that the other forms come of."""
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = tril_of_precision(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return self._full(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        tril = self._unbroadcasted_scale_tril
        return self._full(tril @ tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance."""
        tril = self._unbroadcasted_scale_tril
        size = self._event_shape[-1]
        identity = eye(size, dtype=tril.dtype, device=tril.device)
        inverse = linalg.solve_triangular(tril, identity, upper=False)
        return self._full(inverse.mT @ inverse)

    def _full(self, matrix: Tensor) -> Tensor:
        size = self._event_shape[-1]
        return matrix.expand((*self._batch_shape, size, size))


class MultivariateNormal(ByCovariance):
    """Normal distribution of vectors.

    Parameters
    ----------
    loc : Tensor, shape (..., n)
        Mean.
    covariance_matrix, precision_matrix, scale_tril : Tensor or None
        One of them, (..., n, n): the covariance, its inverse, or its Cholesky factor.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If not exactly one matrix is given, or `loc` has no dimension.

    Examples
    --------
    >>> normal = MultivariateNormal(fw.zeros(2), fw.eye(2))
    >>> round(normal.log_prob(fw.zeros(2)).item(), 4)
    -1.8379
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    _parameters = {
        "loc": 1,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError(
                "MultivariateNormal: loc has no dimension; the last one must be the"
                " vector's"
            )
        name, matrix = self._one_matrix(covariance_matrix, precision_matrix, scale_tril)
        batch = broadcast_shapes(name, tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        setattr(self, name, matrix.expand((*batch, -1, -1)))
        self.loc = loc.expand((*batch, -1))
        super().__init__(batch, tuple(self.loc.shape[-1:]), validate_args)
        self._take_factor(name, matrix)

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Diagonal of the covariance."""
        found = self._unbroadcasted_scale_tril.square().sum(-1)
        return found.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return `loc` plus standard normal draws times the factor."""
        shape = self._extended_shape(sample_shape)
        draws = ops.draw_normal(self.loc, shape, self.loc.dtype)
        tril = self._unbroadcasted_scale_tril
        return self.loc + (tril @ draws.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        tril = self._unbroadcasted_scale_tril
        distance = squared_distance(tril, value - self.loc)
        half = 0.5 * (self._event_shape[0] * LOG_2_PI + distance)
        return -half - log_diagonal(tril)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        constant = 0.5 * self._event_shape[0] * (1.0 + LOG_2_PI)
        found = constant + log_diagonal(self._unbroadcasted_scale_tril)
        return found.expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal distribution of vectors whose covariance is W W^T + D.

    Parameters
    ----------
    loc : Tensor, shape (..., n)
    cov_factor : Tensor, shape (..., n, rank)
        W.
    cov_diag : Tensor, shape (..., n)
        Diagonal of D, above 0.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If the sizes of the vectors differ.
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    _parameters = {
        "loc": 1,
        "cov_factor": 2,
        "cov_diag": 1,
        "_unbroadcasted_cov_factor": 2,
        "_unbroadcasted_cov_diag": 1,
        "_capacitance_tril": 2,
    }

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        sizes = [tuple(each.shape) for each in (loc, cov_factor, cov_diag)]
        fits = loc.ndim >= 1 and cov_factor.ndim >= 2 and cov_diag.ndim >= 1
        if not fits or not loc.shape[-1] == cov_factor.shape[-2] == cov_diag.shape[-1]:
            raise ValueError(
                f"LowRankMultivariateNormal: loc, cov_factor and cov_diag are {sizes};"
                " they must be (..., n), (..., n, rank) and (..., n)"
            )
        batch = broadcast_shapes(
            "LowRankMultivariateNormal", sizes[0][:-1], sizes[2][:-1], sizes[1][:-2]
        )
        self.loc = loc.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self.cov_diag = cov_diag.expand((*batch, -1))
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        # Cholesky factor of I + W^T D^-1 W, of the size of the rank.
        scaled = cov_factor.mT / cov_diag.unsqueeze(-2)
        rank = cov_factor.shape[-1]
        identity = eye(rank, dtype=cov_factor.dtype, device=cov_factor.device)
        self._capacitance_tril = linalg.cholesky(scaled @ cov_factor + identity)
        super().__init__(batch, sizes[0][-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """Diagonal of the covariance."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """Covariance."""
        return self.cov_factor @ self.cov_factor.mT + ops.diag_embed(self.cov_diag)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance."""
        return linalg.cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance, by the Woodbury identity."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        tril = self._capacitance_tril.expand((*self._batch_shape, -1, -1))
        half = linalg.solve_triangular(tril, scaled, upper=False)
        return ops.diag_embed(self.cov_diag.reciprocal()) - half.mT @ half

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return `loc` plus draws times the factor and the diagonal's root."""
        shape = self._extended_shape(sample_shape)
        small = (*shape[:-1], self.cov_factor.shape[-1])
        inner = ops.draw_normal(self.loc, small, self.loc.dtype)
        outer = ops.draw_normal(self.loc, shape, self.loc.dtype)
        low = (self._unbroadcasted_cov_factor @ inner.unsqueeze(-1)).squeeze(-1)
        return self.loc + low + self._unbroadcasted_cov_diag.sqrt() * outer

    def _log_determinant(self) -> Tensor:
        diagonal = self._unbroadcasted_cov_diag.log().sum(-1)
        return 2 * log_diagonal(self._capacitance_tril) + diagonal

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        gap = value - self.loc
        diagonal = self._unbroadcasted_cov_diag
        scaled = self._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        inner = (scaled @ gap.unsqueeze(-1)).squeeze(-1)
        distance = (gap.square() / diagonal).sum(-1)
        distance = distance - squared_distance(self._capacitance_tril, inner)
        constant = self._event_shape[0] * LOG_2_PI
        return -0.5 * (constant + self._log_determinant() + distance)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        constant = self._event_shape[0] * (1.0 + LOG_2_PI)
        found = 0.5 * (constant + self._log_determinant())
        return found.expand(self._batch_shape)
