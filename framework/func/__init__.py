"""Transforms of functions: gradients, Jacobians, batches; modules as functions.

They nest: `vmap(grad(f))` is the gradient for each element of a batch.
"""

from ..base.public_names import public_names as _public_names
from . import forward_ad as _forward_ad
from .functional_call import functional_call, stack_module_state
from .functionalize import (
    debug_unwrap,
    functionalize,
    replace_all_batch_norm_modules_,
)
from .transforms import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)
from .vmap import vmap

_forward_ad.install()

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
