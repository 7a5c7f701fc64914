"""Transforms of functions: gradients, Jacobians, batches; modules as functions.

They nest: `vmap(grad(f))` is the gradient for each element of a batch.
"""

from ..base.public_names import public_names as _public_names
from . import batched_function as _batched_function
from . import batching_rules as _batching_rules
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

_batched_function.install()
_batching_rules.install()

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
