"""Utilities of networks: padding, clipping, parametrizations, parameters as vectors."""

from types import FunctionType as _Function

from ...base.late_modules import give_attributes as _give_attributes
from ...base.public_names import public_names as _public_names
from ...dispatch.diagnosis import explained as _explained
from . import parametrizations, parametrize, rnn, stateless
from .clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from .init import skip_init
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]

globals().update(
    {
        name: _explained(globals()[name], __name__)
        for name in __all__
        if isinstance(globals()[name], _Function)
    }
)


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals(), "parametrizations parametrize prune rnn")


_give_attributes(__name__)
