"""`torch.ops.aten`: functions of the library by the names of PyTorch's operators.

`ops.aten.add.Tensor(x, y)` is `add(x, y)`. There is no dispatcher below: an operator is
the function or the method of the same name and arguments, and an overload is that
function again, for it tells its arguments apart itself. Operators that no function has
the arguments of are not here.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

from .base.late_modules import ROOT

__all__ = ["Aten", "Operator", "aten"]

PREFIXES = {"linalg_": "linalg", "fft_": "fft", "special_": "special"}
"""Modules whose functions are operators with a prefix."""

LAYERS = frozenset(
    """
    avg_pool2d avg_pool3d elu gelu glu hardsigmoid hardswish hardtanh leaky_relu linear
    mish one_hot relu6 scaled_dot_product_attention silu softplus softshrink
    """.split()
)
"""Operators with the arguments of the functions of `nn.functional`."""

INSTEAD = {
    "_log_softmax": "log_softmax",
    "_softmax": "softmax",
    "_to_copy": "Tensor.to",
    "_unsafe_view": "Tensor.view",
    "convolution": "nn.functional.conv2d, and conv_transpose2d",
    "lift_fresh": "Tensor.detach",
    "native_batch_norm": "nn.functional.batch_norm",
    "native_dropout": "nn.functional.dropout",
    "native_group_norm": "nn.functional.group_norm",
    "native_layer_norm": "nn.functional.layer_norm",
}
"""What stands for operators that are not here."""

OVERLOAD = re.compile(
    r"default|out|self|source|names?|correction|values(_stable)?|stable|padding"
    r"|(?:(?:Tensor|Scalar|String|Dimname|int|str|bool|complex|float|dtype|dim|dims)"
    r"(?:List)?_?(?:Int|IntList|mode|out|max|min|unary)*_?)+"
)
"""Names that PyTorch's overloads have."""


class Operator:
    """An operator: its function, of which each overload is one.

    Attributes
    ----------
    name : str
        PyTorch's, with the overload behind a point if it is one.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self._function = function
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function does."""
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Operator:
        """Return an overload: the same function.

        Raises
        ------
        AttributeError
            If PyTorch's overloads are not called so.
        """
        if overload.startswith("__") or "." in self.name:
            raise AttributeError(f"{self!r} has no attribute {overload!r}")
        if not OVERLOAD.fullmatch(overload):
            raise AttributeError(
                f"ops.aten.{self.name}: {overload!r} is no overload; call"
                f" ops.aten.{self.name} itself"
            )
        found = Operator(f"{self.name}.{overload}", self._function)
        setattr(self, overload, found)
        return found

    def __repr__(self) -> str:
        return f"<operator aten.{self.name}>"


class Aten:
    """The operators, by name."""

    def __getattr__(self, name: str) -> Operator:
        """Return an operator.

        Raises
        ------
        AttributeError
            If no function here has its name and arguments.
        """
        if name.startswith("__"):
            raise AttributeError(f"ops.aten has no attribute {name!r}")
        function = _function(name)
        if function is None:
            instead = INSTEAD.get(name, f"see {ROOT}.Tensor and {ROOT}.nn.functional")
            raise AttributeError(
                f"ops.aten: there is no operator {name!r}; what is here: {instead}"
            )
        found = Operator(name, function)
        setattr(self, name, found)
        return found


def _function(name: str) -> Callable[..., Any] | None:
    """Return the function of an operator, the method if there is none."""
    library = importlib.import_module(ROOT)
    for prefix, module in PREFIXES.items():
        if name.startswith(prefix):
            return _named(getattr(library, module), name.removeprefix(prefix))
    if name.startswith("_") and not name.startswith("__"):
        return None
    if name in LAYERS:
        return _named(library.nn.functional, name)
    return _named(library, name) or _named(library.Tensor, name)


def _named(place: Any, name: str) -> Callable[..., Any] | None:
    found = getattr(place, name, None)
    return found if callable(found) and not isinstance(found, type) else None


aten = Aten()
"""`torch.ops.aten`."""
