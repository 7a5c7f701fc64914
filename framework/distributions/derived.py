"""Distributions made of others: independent, transformed, mixtures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import ops
from ..autograd.grad_mode import no_grad
from ..tensor.tensor import Tensor
from . import constraints
from .categorical import Categorical
from .constraints import Constraint, dependent_property
from .distribution import Distribution, sum_rightmost
from .transforms import ComposeTransform, Transform


class Independent(Distribution):
    """Distribution whose last batch dimensions become part of a value.

    Parameters
    ----------
    base_distribution : Distribution
    reinterpreted_batch_ndims : int
        At most the number of its batch dimensions.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If there are fewer batch dimensions.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Independent: reinterpreted_batch_ndims is"
                f" {reinterpreted_batch_ndims}, but the batch is {batch}; it must be at"
                f" most {len(batch)}"
            )
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Independent:
        """Return the distribution with parameters expanded to a batch shape."""
        own = self._event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand((*batch_shape, *own))
        return Independent(base, self.reinterpreted_batch_ndims, validate_args=False)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # known by the instance
        """Whether draws have gradients."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]  # as above
        """Whether values can be listed."""
        return self.reinterpreted_batch_ndims == 0 and (
            self.base_dist.has_enumerate_support
        )

    @dependent_property
    def support(self) -> Constraint:
        """Blocks of values of the base."""
        inner = self.base_dist.support
        if self.reinterpreted_batch_ndims:
            return constraints.independent(inner, self.reinterpreted_batch_ndims)
        base: Constraint = inner
        return base

    @property
    def mean(self) -> Tensor:
        """The base's."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The base's."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The base's."""
        return self.base_dist.variance

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws of the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws of the base, with gradients."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the sum of the base's over the reinterpreted dimensions."""
        inner = self.base_dist.log_prob(value)
        return sum_rightmost(inner, self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the sum of the base's over the reinterpreted dimensions."""
        inner = self.base_dist.entropy()
        return sum_rightmost(inner, self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the base's, if no dimension is reinterpreted."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "Independent.enumerate_support: values of several dimensions are not"
                " listed"
            )
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Distribution of a variable after one or several transforms.

    Parameters
    ----------
    base_distribution : Distribution
    transforms : Transform or list of Transform
        Applied in this order.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If `transforms` are none.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        several = (
            [transforms] if isinstance(transforms, Transform) else list(transforms)
        )
        if not all(isinstance(each, Transform) for each in several):
            raise ValueError(
                f"TransformedDistribution: transforms is {transforms!r}; it must be a"
                " Transform or a list of them"
            )
        self.transforms = several
        composed = ComposeTransform(several)
        base_shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        shape = composed.forward_shape(base_shape)
        # What the transforms take as one value may be a batch of the base.
        whole = composed.inverse_shape(shape)
        if whole != base_shape:
            batch = whole[: len(whole) - len(base_distribution.event_shape)]
            base_distribution = base_distribution.expand(batch)
        taken = composed.domain.event_dim - len(base_distribution.event_shape)
        if taken > 0:
            base_distribution = Independent(base_distribution, taken)
        self.base_dist = base_distribution
        grown = composed.codomain.event_dim - composed.domain.event_dim
        event_dim = max(
            composed.codomain.event_dim, len(base_distribution.event_shape) + grown
        )
        cut = len(shape) - event_dim
        super().__init__(shape[:cut], shape[cut:], validate_args)

    def expand(
        self, batch_shape: Iterable[int], _instance: Any = None
    ) -> TransformedDistribution:
        """Return the distribution with the base expanded to a batch shape."""
        shape = (*batch_shape, *self._event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        base_batch = shape[: len(shape) - len(self.base_dist.event_shape)]
        base = self.base_dist.expand(base_batch)
        return TransformedDistribution(base, self.transforms, validate_args=False)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]  # known by the instance
        """Whether draws have gradients."""
        return self.base_dist.has_rsample

    @dependent_property
    def support(self) -> Constraint:
        """Where the last transform leads."""
        if not self.transforms:
            base: Constraint = self.base_dist.support
            return base
        found: Constraint = self.transforms[-1].codomain
        missing = len(self._event_shape) - found.event_dim
        return constraints.independent(found, missing) if missing > 0 else found

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return transformed draws, without a gradient."""
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return transformed draws, with gradients."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        event_dim = len(self._event_shape)
        y, total = value, None
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            term = sum_rightmost(
                transform.log_abs_det_jacobian(x, y),
                event_dim - transform.domain.event_dim,
            )
            total = term if total is None else total + term
            y = x
        base_dim = len(self.base_dist.event_shape)
        log_prob = sum_rightmost(self.base_dist.log_prob(y), event_dim - base_dim)
        return log_prob if total is None else log_prob - total

    def _rises(self) -> Any:
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        below = self.base_dist.cdf(value)
        sign = self._rises()
        if isinstance(sign, int | float) and sign == 1:
            return below
        turned: Tensor = sign * (below - 0.5) + 0.5
        return turned

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        sign = self._rises()
        if not (isinstance(sign, int | float) and sign == 1):
            value = sign * (value - 0.5) + 0.5
        found = self.base_dist.icdf(value)
        for transform in self.transforms:
            found = transform(found)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.transforms})"


class MixtureSameFamily(Distribution):
    """Mixture of distributions of one family.

    Parameters
    ----------
    mixture_distribution : Categorical
        Chooses the component.
    component_distribution : Distribution
        Its last batch dimension is the components.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If these are of other kinds, or their batches or numbers of components differ.
    """

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "MixtureSameFamily: mixture_distribution is a"
                f" {type(mixture_distribution).__name__}; it must be a Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "MixtureSameFamily: component_distribution is a"
                f" {type(component_distribution).__name__}; it must be a Distribution"
            )
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        batch, event = (
            component_distribution.batch_shape,
            component_distribution.event_shape,
        )
        chosen = mixture_distribution.batch_shape
        count = mixture_distribution.param_shape[-1]
        fits = all(a == b or 1 in (a, b) for a, b in zip(chosen[::-1], batch[-2::-1]))
        if not batch or not fits or batch[-1] != count:
            raise ValueError(
                f"MixtureSameFamily: the mixture has batch {chosen} and {count}"
                f" components, the components have batch {batch}; it must be the"
                " mixture's, followed by the number of components"
            )
        self._num_component = count
        super().__init__(batch[:-1], event, validate_args)

    def expand(
        self, batch_shape: Iterable[int], _instance: Any = None
    ) -> MixtureSameFamily:
        """Return the distribution with parameters expanded to a batch shape."""
        shape = tuple(batch_shape)
        return MixtureSameFamily(
            self.mixture_distribution.expand(shape),
            self.component_distribution.expand((*shape, self._num_component)),
            validate_args=False,
        )

    @dependent_property
    def support(self) -> Constraint:
        """Values of the components."""
        return constraints.MixtureSameFamilyConstraint(
            self.component_distribution.support
        )

    def _weights(self) -> Tensor:
        """Return the probabilities, with dimensions for an event."""
        probs = self.mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * len(self._event_shape)))

    @property
    def _dim(self) -> int:
        """Dimension of the components in a draw of them."""
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Tensor:
        """Weighted mean of the means."""
        return (self._weights() * self.component_distribution.mean).sum(self._dim)

    @property
    def variance(self) -> Tensor:
        """Mean of the variances plus the variance of the means."""
        weights = self._weights()
        within = (weights * self.component_distribution.variance).sum(self._dim)
        apart = self.component_distribution.mean - self.mean.unsqueeze(self._dim)
        return within + (weights * apart.square()).sum(self._dim)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws, without a gradient."""
        shape = (
            tuple(sample_shape)
            if not isinstance(sample_shape, int)
            else (sample_shape,)
        )
        with no_grad():
            chosen = self.mixture_distribution.sample(shape)
            chosen = chosen.expand((*shape, *self._batch_shape))
            drawn = self.component_distribution.sample(shape)
            event = (1,) * len(self._event_shape)
            index = chosen.reshape((*chosen.shape, 1, *event))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return drawn.gather(drawn.ndim + self._dim, index).squeeze(self._dim)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        each = self.component_distribution.log_prob(value.unsqueeze(self._dim))
        weights = ops.log_softmax(self.mixture_distribution.logits, -1)
        return ops.logsumexp(each + weights, -1)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        each = self.component_distribution.cdf(value.unsqueeze(self._dim))
        return (each * self._weights()).sum(-1)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},"
            f"\n  {self.component_distribution})"
        )
