"""Layers whose sizes of inputs are known from the first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..autograd.grad_mode import no_grad
from ..base.dtype import DTypeLike
from ..base.shape import Shape
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from . import linear, module_hooks
from .module import Module
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "LazyLinear",
    "LazyModuleMixin",
    "UninitializedBuffer",
    "UninitializedParameter",
    "is_lazy",
    "materialize",
]


class LazyModuleMixin(Module):
    """Base of modules that make their parameters at the first call.

    Subclasses define `initialize_parameters(*args)`, which sees that call's inputs;
    `cls_to_become` is the class that the module has afterwards.

    Notes
    -----
    Call the module once, as with a batch of zeros, before an optimizer is made of
    shapes, and before `fw.jit`: within a trace nothing can be made.
    """

    cls_to_become: type[Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register_forward_pre_hook(_infer, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters; the arguments are those of `forward`."""
        raise NotImplementedError(
            f"{type(self).__name__}: define initialize_parameters, which gets the"
            " inputs of the first call"
        )

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or buffer has no shape yet."""
        named = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(each) for each in named)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *args: Any
    ) -> None:
        """Take the shapes of a state, then load it."""
        for name, each in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(each) and given is not None and not is_lazy(given):
                with no_grad():
                    each.materialize(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


def _infer(module: Any, args: Any, kwargs: Any) -> None:
    """Make a lazy module's parameters before its first call; become what it is then."""
    if module.has_uninitialized_params():
        module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"{type(module).__name__}: initialize_parameters left a parameter without a"
            " shape; it must materialize each"
        )
    module_hooks.drop_forward_pre(module, _infer)
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become


class LazyLinear(LazyModuleMixin, linear.Linear):
    """`Linear` whose `in_features` is the last size of its first input.

    Parameters
    ----------
    out_features : int
    bias : bool, default True
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32

    Examples
    --------
    >>> layer = nn.LazyLinear(2)
    >>> layer(fw.zeros((5, 3))).shape
    torch.Size([5, 2])
    >>> layer
    Linear(in_features=3, out_features=2, bias=True)
    """

    cls_to_become = linear.Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(0, 0, False, device, dtype)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if there are any."""
        if self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Make the parameters for the last size of an input."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            materialize(self.weight, (self.out_features, self.in_features))
            materialize(self.bias, (self.out_features,))
            self.reset_parameters()


def materialize(param: Any, shape: Shape) -> None:
    """Give a parameter or buffer that has no shape one; leave others as they are."""
    if is_lazy(param):
        param.materialize(shape)
