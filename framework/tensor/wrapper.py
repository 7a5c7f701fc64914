"""Wrapper tensors: tensors that are made of other tensors, as sparse and nested ones.

A wrapper tensor has a shape of its own, and dense tensors for its elements: those that
gradients are for, and those that tell where they are. The tape, the device and the
dtype are the elements'. Its layout is in the key of no cached call, so calls of ops
come to the slow path, which hands them to the rules of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ..autograd.engine import is_grad_enabled
from ..base import trace_hooks
from ..base.errors import DTypeError, GradError
from ..base.memory_format import OpaqueLayout, layout
from ..base.torch_function import disabled_torch_function_impl
from ..dispatch import batching
from .inplace import assign
from .tensor import Tensor

if TYPE_CHECKING:
    from ..dispatch.op import Op

_new = object.__new__


class WrapperTensor(Tensor):
    """Tensor that is made of other tensors.

    Attributes
    ----------
    elements : Tensor
        Internal: the elements that are stored.
    """

    __slots__ = ("elements",)

    results = Tensor
    __torch_function__ = disabled_torch_function_impl  # type: ignore[assignment]  # not asked
    is_wrapper = True

    kind: ClassVar[layout]
    """The layout that it equals."""

    title: ClassVar[str]
    """What errors call it."""

    rules: ClassVar[Mapping[str, Callable[..., Any]]]
    """What it makes of calls, by the name of the op; each takes the op's arguments."""

    elements: Tensor

    def __init__(self, *_: Any, **__: Any) -> None:
        raise TypeError(
            f"{type(self).__name__}: it is made by functions, as sparse_coo_tensor or"
            " nested_tensor; call one of them"
        )

    @classmethod
    def over(cls, elements: Tensor, shape: Sequence[int]) -> Any:
        """Return a tensor over elements, without what else its class has."""
        made = _new(cls)
        made.elements = elements
        set_layout(made, OpaqueLayout.of(cls.kind, tuple(shape)))
        if not batching.has_wrappers():
            batching.register_wrappers(_call, _in_place)
        return made

    def parts(self) -> tuple[Tensor, ...]:
        """Return the tensors that it is made of, the elements first."""
        raise NotImplementedError

    def static(self) -> tuple[Any, ...]:
        """Return what else it is made of: what `like` takes."""
        raise NotImplementedError

    @classmethod
    def like(cls, parts: Sequence[Tensor], static: Sequence[Any]) -> Any:
        """Return a tensor of this class that is made of other tensors."""
        raise NotImplementedError

    def mapped(self, function: Callable[[Tensor], Tensor]) -> Any:
        """Return it with another tensor for each that it is made of."""
        return self.like([function(each) for each in self.parts()], self.static())

    def with_elements(self, elements: Tensor) -> Any:
        """Return a tensor with other elements in the same places."""
        return self.like([elements, *self.parts()[1:]], self.static())

    # What a tensor has, by its elements

    @property
    def array(self) -> Any:  # type: ignore[override]  # a slot of other tensors
        """Internal: the storage of the elements."""
        return self.elements.array

    @property
    def device(self) -> Any:  # type: ignore[override]  # a slot of other tensors
        """Device of the elements."""
        return self.elements.device

    @property
    def needs_grad(self) -> bool:
        """Internal: the same as `requires_grad`."""
        return self.elements.needs_grad

    @needs_grad.setter
    def needs_grad(self, flag: bool) -> None:
        self.elements.needs_grad = flag

    @property
    def requires_grad(self) -> bool:
        """Whether `backward` computes a gradient for its elements."""
        return self.elements.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        if flag and not self.elements.needs_grad:
            # The tensor that it was made of does not require one.
            self.elements = self.elements.detach()
        self.elements.requires_grad = flag

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Set whether `backward` computes a gradient for the elements; return it."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad_node(self) -> Any:  # type: ignore[override]  # a slot of other tensors
        """Internal: the tape entry that made the elements."""
        return self.elements.grad_node

    @property
    def grad_index(self) -> int:  # type: ignore[override]  # a slot of other tensors
        """Internal: which output of the tape entry they are."""
        return self.elements.grad_index

    @property
    def hooks(self) -> Any:  # type: ignore[override]  # a slot of other tensors
        """Internal: hooks of the elements."""
        return self.elements.hooks

    @property
    def own_grad(self) -> Any:
        """Internal: see `grad`."""
        return self.grad

    @property
    def grad(self) -> Any:
        """The gradient that `backward` accumulated, in the same places, or None."""
        grad = self.elements.grad
        return None if grad is None else self.gradient_of(grad)

    @grad.setter
    def grad(self, grad: Any) -> None:
        if grad is not None:
            raise GradError(
                f"grad: a gradient was set on a {self.title} tensor; it can be set to"
                " None only"
            )
        self.elements.grad = None

    def gradient_of(self, grad: Tensor) -> Any:
        """Return the gradient of this tensor for one of its elements."""
        return self.with_elements(grad)

    def detach(self) -> Any:
        """Return the same elements off the tape; in-place changes are shared."""
        return self.with_elements(self.elements.detach())

    def alias(self) -> Any:
        """Return the same elements and tape entry, in a storage of their own."""
        return self.with_elements(self.elements.alias())

    def view_of(self, layout: Any) -> Any:
        """Return the same elements off the tape; it has no other views."""
        return self.detach() if layout is self.layout else self._refuse("view")

    @property
    def data(self) -> Any:
        """The same elements off the tape; it may be set to a tensor of its class."""
        return self.detach()

    @data.setter
    def data(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(
                f"data: a {type(other).__name__} was set on a {self.title} tensor; it"
                " must be of the same layout"
            )
        self._take(other)

    def _take(self, other: Any) -> None:
        """Take all that another tensor of the class has."""
        trace_hooks.refuse(
            f"a {self.title} tensor is changed in place, which a replay does not"
            " repeat; make another one"
        )
        trace_hooks.structure_changed()
        for kind in type(self).__mro__:
            if kind is Tensor:
                break
            for name in kind.__dict__.get("__slots__", ()):
                setattr(self, name, getattr(other, name))
        set_layout(self, other.layout)

    def clone(self, *, memory_format: Any = None) -> Any:
        """Return a copy of the elements, on the tape."""
        return self.mapped(lambda each: each.clone())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = self.mapped(lambda each: each.__deepcopy__(memo))
        if self.__dict__:
            copied.__dict__.update(self.__dict__)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), self.parts(), self.static())

    def to(self, *target: Any, **options: Any) -> Any:
        """Return it on a device, in a dtype, or both; itself if it is so."""
        elements = self.elements.to(*target, **options)
        if elements is self.elements:
            return self
        rest = [each.to(elements.device) for each in self.parts()[1:]]
        return self.like([elements, *rest], self.static())

    def cpu(self, memory_format: Any = None) -> Any:
        """Return it on the host."""
        return self.to("cpu")

    def to_gpu(self, device: Any = None) -> Any:
        """Return it on the best Vulkan device, or on the one named."""
        return self.to("gpu" if device is None else device)

    def cuda(
        self, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> Any:
        """Raise: there is no CUDA; `to("gpu")` moves to the Vulkan device."""
        return self.elements.cuda(device)

    def pin_memory(self, device: Any = None) -> Any:
        """Return the tensor itself."""
        return self

    def copy_(self, src: Any, non_blocking: bool = False) -> Any:
        """Take the elements, and their places, of a tensor of the same layout."""
        if type(src) is not type(self) or src.shape != self.shape:
            raise TypeError(
                f"copy_: {_told(src)} is copied to a {self.title} tensor of shape"
                f" {tuple(self.shape)}; it must be one of that shape"
            )
        self._take(src.to(self.device, self.dtype).clone())
        return self

    def on_rows(self, name: str, function: Callable[[Tensor], Tensor]) -> Any:
        """Return a function of the last dimensions, of all elements at once.

        `name` is what errors call it.
        """
        self._refuse(name)

    def _refuse(self, what: str) -> NoReturn:
        raise NotImplementedError(
            f"{what}: the tensor of shape {tuple(self.shape)} is {self.title}, which it"
            " does not take; use to_dense(), or the tensors that it is made of"
        )

    def _not_on_host(self, *_: Any, **__: Any) -> NoReturn:
        raise DTypeError(
            f"numpy: a {self.title} tensor of shape {tuple(self.shape)} is no array;"
            " use x.to_dense() first"
        )

    numpy = host_copy = host_view = __array__ = __dlpack__ = tolist = _not_on_host

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Tensor | int | float):
            return NotImplemented
        return self._refuse("eq")

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, Tensor | int | float):
            return NotImplemented
        return self._refuse("ne")

    def __hash__(self) -> int:
        return id(self)

    @property
    def is_gpu(self) -> bool:
        """Whether the elements are on a Vulkan device."""
        return self.elements.is_gpu


def set_layout(tensor: Tensor, given: Any) -> None:
    """Set the layout of a tensor that is made of others."""
    tensor.layout = given


def _unpickled(kind: Any, parts: Sequence[Tensor], static: Sequence[Any]) -> Any:
    return kind.like(parts, static)


def _told(value: Any) -> str:
    if isinstance(value, WrapperTensor):
        return f"a {value.title} tensor of shape {tuple(value.shape)}"
    if isinstance(value, Tensor):
        return f"a dense tensor of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def _wrapper_in(values: Any) -> WrapperTensor | None:
    """Return the first wrapper among arguments, also in sequences."""
    for each in values:
        if isinstance(each, WrapperTensor):
            return each
        if isinstance(each, list | tuple):
            found = _wrapper_in(each)
            if found is not None:
                return found
    return None


def _call(op: Op[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return what a wrapper's class makes of a call; `NotImplemented` without any."""
    found = _wrapper_in(arguments.values())
    if found is None:
        return NotImplemented
    rule = found.rules.get(op.name)
    if rule is None:
        found._refuse(op.name)
    answer = rule(*arguments.values())
    if answer is NotImplemented:
        found._refuse(op.name)
    return answer


def _in_place(*tensors: Any) -> batching.InPlaceRules | None:
    """Return how to change tensors in place if one is a wrapper."""
    return _RULES if _wrapper_in(tensors) is not None else None


def _assign(x: Tensor, source: Any) -> Tensor:
    if not isinstance(x, WrapperTensor):
        raise DTypeError(
            f"copy_: {_told(source)} is copied to {_told(x)}; use to_dense()"
        )
    copied: Tensor = x.copy_(source)
    return copied


def _change(
    x: Tensor, op: Callable[..., Any], others: tuple[Any, ...], options: dict[str, Any]
) -> Tensor:
    if not isinstance(x, WrapperTensor):
        recorded = is_grad_enabled() and x.needs_grad
        new = op(x.alias() if recorded else x.detach(), *others, **options)
        return assign(x, new)
    if is_grad_enabled() and x.needs_grad and x.is_leaf:
        raise GradError(
            f"in place: a {x.title} leaf of shape {tuple(x.shape)} requires a gradient;"
            " change it under no_grad()"
        )
    new = op(x, *others, **options)
    if type(new) is not type(x) or new.shape != x.shape:
        raise TypeError(
            f"in place: the result is {_told(new)}; it does not fit into {_told(x)}"
        )
    x._take(new.to(x.dtype))
    return x


def _set_item(x: Tensor, index: object, value: Any) -> None:
    found = _wrapper_in((x, value))
    if found is not None:
        found._refuse("setitem")
    raise TypeError(
        "setitem: the index has a sparse or nested tensor; use its indices or values"
    )


_RULES = batching.InPlaceRules(
    lambda *tensors: _wrapper_in(tensors) is not None, _assign, _change, _set_item
)
