"""Probability distributions: draws, densities, divergences, with PyTorch's names."""

from ..base.late_modules import give_attributes as _give_attributes
from ..base.public_names import public_names as _public_names
from . import constraint_registry, constraints, kl, transforms
from . import kl_families as _kl_families  # noqa: F401 - it registers rules
from .bernoulli import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
)
from .beta import Beta, Dirichlet, Kumaraswamy
from .categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from .constraint_registry import biject_to, transform_to
from .derived import Independent, MixtureSameFamily, TransformedDistribution
from .distribution import Distribution, ExponentialFamily
from .gamma import (
    Chi2,
    Exponential,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from .kl import kl_divergence, register_kl
from .lkj import LKJCholesky
from .location_scale import Cauchy, Gumbel, HalfCauchy, Laplace, Uniform
from .multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from .normal import HalfNormal, Normal
from .poisson import Poisson
from .transformed import (
    GeneralizedPareto,
    LogisticNormal,
    LogNormal,
    Pareto,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    Weibull,
)
from .transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from .von_mises import VonMises
from .wishart import Wishart

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "constraint_registry",
    "constraints",
    "identity_transform",
    "kl",
    "kl_divergence",
    "register_kl",
    "transform_to",
    "transforms",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals(), "constraints kl transforms")


_give_attributes(__name__)
