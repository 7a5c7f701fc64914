"""Pruning: parameters of which a mask sets elements to zero."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...base.public_names import public_names as _public_names
from ...tensor.factories import ones_like
from ...tensor.from_data import tensor as as_made
from ...tensor.tensor import Tensor
from ..module import Module
from ..module_hooks import drop_forward_pre, hooks_of
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

M = TypeVar("M", bound=Module)
Amount = int | float


class BasePruningMethod(ABC):
    """Base of methods, which are forward pre-hooks that multiply with a mask.

    Subclasses define `compute_mask`, and `PRUNING_TYPE`: "unstructured" counts
    elements, "structured" slices along `dim`, "global" elements of several parameters.
    """

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Set the parameter to the original times the mask."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of a tensor's shape that keeps what the default one excludes.

        Parameters
        ----------
        t : Tensor
            What decides, as the parameter itself.
        default_mask : Tensor
            The mask so far.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return the original parameter times the mask."""
        original = getattr(module, f"{self._tensor_name}_orig")
        mask: Tensor = getattr(module, f"{self._tensor_name}_mask")
        result: Tensor = mask.to(original.dtype) * original
        return result

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> BasePruningMethod:
        """Prune a parameter, after what pruned it before; return the hook.

        Parameters
        ----------
        module : Module
        name : str
            The parameter's; `<name>_orig` and the buffer `<name>_mask` take its place.
        *args, **kwargs
            Of the method.
        importance_scores : Tensor or None
            What decides instead of the parameter, in its shape.
        """
        before = _method_of(module, name)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        made = method
        if before is not None:
            drop_forward_pre(module, before)
            made = PruningContainer(before)
            made.add_pruning_method(method)
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if tuple(scores.shape) != tuple(value.shape):
            raise AssertionError(
                f"prune: importance_scores is {tuple(scores.shape)}; it must be"
                f" {tuple(value.shape)}, as {name}"
            )
        if before is None:
            start = ones_like(value.detach())
        else:
            start = getattr(module, f"{name}_mask").detach().clone()
        mask = made.compute_mask(scores.detach(), start)
        if before is None:
            module.register_parameter(f"{name}_orig", value)
            del module._parameters[name]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, made.apply_mask(module))
        module.register_forward_pre_hook(made)
        return made

    def prune(
        self,
        t: Tensor,
        default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:
        """Return a tensor with the method's mask applied."""
        scores = t if importance_scores is None else importance_scores
        start = ones_like(t) if default_mask is None else default_mask
        result: Tensor = t * self.compute_mask(scores, start)
        return result

    def remove(self, module: Module) -> None:
        """Make the pruned parameter a plain one; its zeros stay."""
        name = self._tensor_name
        if _method_of(module, name) is None:
            raise AssertionError(f"prune: {name} is not pruned")
        original: Any = module._parameters[f"{name}_orig"]
        original.data = self.apply_mask(module).detach()
        delattr(module, name)
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        module.register_parameter(name, original)


class PruningContainer(BasePruningMethod):
    """Methods that prune one parameter one after the other.

    Parameters
    ----------
    *args : BasePruningMethod, or one sequence of them
    """

    def __init__(self, *args: Any) -> None:
        self._methods: tuple[BasePruningMethod, ...] = ()
        given = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for each in given:
            if not self._methods:
                self._tensor_name = each._tensor_name
            self.add_pruning_method(each)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(
                f"PruningContainer: a {type(method).__name__} is no pruning method"
            )
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"PruningContainer: the method prunes {method._tensor_name}, this one"
                f" {self._tensor_name}; they must be the same"
            )
        if method is not None:
            inner = (
                method._methods if isinstance(method, PruningContainer) else (method,)
            )
            self._methods += inner

    def __len__(self) -> int:
        return len(self._methods)

    def __iter__(self) -> Any:
        return iter(self._methods)

    def __getitem__(self, at: int) -> BasePruningMethod:
        return self._methods[at]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of the last method on what the others have kept."""
        method = self._methods[-1]
        kept = default_mask.host_copy().astype(bool)
        mask = default_mask.host_copy().copy()
        if method.PRUNING_TYPE == "structured":
            # Only slices of which something is left take part.
            dim = method.dim % t.ndim  # type: ignore[attr-defined]  # structured has it
            others = tuple(k for k in range(t.ndim) if k != dim)
            chosen: Any = [slice(None)] * t.ndim
            chosen[dim] = kept.any(others)
            at: Any = tuple(chosen)
        else:
            at = slice(None) if method.PRUNING_TYPE == "global" else kept
        part = method.compute_mask(
            as_made(t.host_copy()[at]), as_made(np.ones_like(mask[at]))
        )
        mask[at] = mask[at] * part.host_copy()
        return as_made(mask, device=t.device, dtype=default_mask.dtype)


class Identity(BasePruningMethod):
    """Keeps every element."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the default mask."""
        return default_mask


class _Counted(BasePruningMethod):
    """Prunes a number of elements or slices."""

    def __init__(self, amount: Amount) -> None:
        _check_amount(amount)
        self.amount = amount


class RandomUnstructured(_Counted):
    """Prunes elements that are drawn at random.

    Parameters
    ----------
    amount : int or float
        Number of elements, or their share.
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of which randomly drawn elements are 0."""
        count = _count(self.amount, t.numel())
        return _without_least(_drawn(t, tuple(t.shape)), default_mask, count)


class L1Unstructured(_Counted):
    """Prunes the elements of the least magnitude.

    Parameters
    ----------
    amount : int or float
        Number of elements, or their share.
    """

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of which the elements of the least magnitude are 0."""
        return _without_least(t.abs(), default_mask, _count(self.amount, t.numel()))


class _Structured(_Counted):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor, dim: int) -> Tensor:
        """Return a number for each slice."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return a mask of which the slices with the least scores are 0."""
        if t.ndim < 2:
            raise ValueError(
                f"prune: a tensor of shape {tuple(t.shape)} has no slices; it must have"
                " at least 2 dimensions"
            )
        dim = self.dim % t.ndim
        count = _count(self.amount, t.shape[dim])
        scores = self.scores(t, dim)
        kept = _without_least(scores, ones_like(scores), count)
        shape = [1] * t.ndim
        shape[dim] = t.shape[dim]
        return default_mask * kept.reshape(shape).to(default_mask.dtype)


class RandomStructured(_Structured):
    """Prunes slices that are drawn at random.

    Parameters
    ----------
    amount : int or float
        Number of slices, or their share.
    dim : int, default -1
        Dimension of the slices.
    """

    def scores(self, t: Tensor, dim: int) -> Tensor:
        """Return random numbers."""
        return _drawn(t, (t.shape[dim],))


class LnStructured(_Structured):
    """Prunes the slices of the least norm.

    Parameters
    ----------
    amount : int or float
        Number of slices, or their share.
    n : int, float or str
        The norm's order.
    dim : int, default -1
        Dimension of the slices.
    """

    def __init__(self, amount: Amount, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def scores(self, t: Tensor, dim: int) -> Tensor:
        """Return the norms."""
        others = tuple(k for k in range(t.ndim) if k != dim)
        result: Tensor = t.norm(self.n, others)
        return result


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask has no ones for.

    Parameters
    ----------
    mask : Tensor
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the default mask times the given one."""
        return default_mask * self.mask.to(default_mask.dtype)


def _drawn(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return uniform random numbers on a tensor's device."""
    result: Tensor = like.detach().new_empty(shape).uniform_()
    return result


def _without_least(scores: Tensor, mask: Tensor, count: int) -> Tensor:
    """Return a mask without the elements of the least scores."""
    result = mask.clone()
    if count:
        _, least = scores.reshape(-1).topk(count, largest=False)
        flat = result.reshape(-1)
        flat[least] = 0
        result = flat.reshape(tuple(mask.shape))
    return result


def _check_amount(amount: Any) -> None:
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        raise TypeError(
            f"prune: amount is a {type(amount).__name__}; it must be a number"
        )
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(
            f"prune: amount is {amount}; it must be a count of at least 0, or a share"
            " between 0.0 and 1.0"
        )


def _count(amount: Amount, size: int) -> int:
    """Return how many elements or slices an amount is of so many."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"prune: amount is {amount}; there are only {size}")
    return amount


def _method_of(module: Module, name: str) -> BasePruningMethod | None:
    """Return what prunes a parameter, or None."""
    for hook in hooks_of(module).forward_pre.values():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return hook
    return None


# Functions that prune a parameter and return the module.


def identity(module: M, name: str) -> M:
    """Prepare a parameter for pruning without removing anything; return the module.

    Parameters
    ----------
    module : Module
        Has the parameter.
    name : str
        The parameter's.
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: Amount) -> M:
    """Prune randomly drawn elements; return the module.

    Parameters
    ----------
    module : Module
    name : str
    amount : int or float
        Number of elements, or their share.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: Amount, importance_scores: Tensor | None = None
) -> M:
    """Prune the elements of the least magnitude; return the module.

    Parameters
    ----------
    module : Module
    name : str
    amount : int or float
        Number of elements, or their share.
    importance_scores : Tensor or None
        Numbers whose magnitude decides instead.

    Examples
    --------
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(fw.tensor([[1.0, -3.0]]))
    >>> nn.utils.prune.l1_unstructured(layer, "weight", 1).weight.tolist()
    [[0.0, -3.0]]
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: Amount, dim: int) -> M:
    """Prune randomly drawn slices along a dimension; return the module.

    Parameters
    ----------
    module : Module
        Has the parameter.
    name : str
        The parameter's.
    amount : int or float
        How many slices, or which share of them, from 0 to 1.
    dim : int
        The dimension that slices are numbered along.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: M,
    name: str,
    amount: Amount,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> M:
    """Prune the slices of the least norm along a dimension; return the module.

    Parameters
    ----------
    module : Module
    name : str
    amount : int or float
        Number of slices, or their share.
    n : int, float or str
        The norm's order.
    dim : int
    importance_scores : Tensor or None
        Numbers whose norms decide instead.
    """
    LnStructured.apply(
        module, name, amount, n, dim, importance_scores=importance_scores
    )
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune what a mask has no ones for; return the module.

    Parameters
    ----------
    module : Module
        Has the parameter.
    name : str
        The parameter's.
    mask : Tensor, shape of the parameter
        Ones and zeros.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Sequence[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune the elements of several parameters together.

    Parameters
    ----------
    parameters : sequence of (Module, str)
    pruning_method : class
        Of type "unstructured".
    importance_scores : dict or None
        Numbers that decide instead, by module and name.
    **kwargs
        Of the method, as `amount`.

    Raises
    ------
    TypeError
        If the method is of another type.
    """
    parameters = [*parameters]
    given = importance_scores or {}
    scores = [given.get(each, getattr(*each)).detach() for each in parameters]
    masks = [
        getattr(module, f"{name}_mask", ones_like(getattr(module, name).detach()))
        for module, name in parameters
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"global_unstructured: {pruning_method.__name__} is of type"
            f" {method.PRUNING_TYPE!r}; it must be 'unstructured'"
        )
    method._tensor_name = "temp"
    container = PruningContainer(method)
    flat = container.compute_mask(
        parameters_to_vector(scores), parameters_to_vector(masks)
    )
    start = 0
    for (module, name), each in zip(parameters, scores):
        part = flat[start : start + each.numel()].reshape(tuple(each.shape))
        start += each.numel()
        custom_from_mask(module, name, part)


def remove(module: M, name: str) -> M:
    """Make a pruned parameter a plain one with its zeros; return the module.

    Parameters
    ----------
    module : Module
        Has the parameter.
    name : str
        The parameter's.

    Raises
    ------
    ValueError
        If it is not pruned.
    """
    method = _method_of(module, name)
    if method is None:
        raise ValueError(
            f"prune.remove: {name} of {type(module).__name__} is not pruned"
        )
    method.remove(module)
    drop_forward_pre(module, method)
    return module


def is_pruned(module: Module) -> bool:
    """Return whether a parameter of a module, or within it, is pruned.

    Parameters
    ----------
    module : Module
        Any.
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in hooks_of(each).forward_pre.values()
    )


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
