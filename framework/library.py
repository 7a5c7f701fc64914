"""Functions of a program's own that count as one op, with a gradient rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from . import ops
from .autograd.function import Function
from .base.errors import GradError
from .base.late_modules import resolved
from .base.public_names import public_names as _public_names
from .tensor.tensor import Tensor

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

_ops: dict[str, CustomOpDef] = {}


class Library:
    """PyTorch's table of operators, which is not here: making one raises.

    Raises
    ------
    NotImplementedError
        Always: `custom_op` defines one op.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "library.Library is not here: define ops by custom_op, each for itself"
        )


class CustomOpDef:
    """Function that is called as one op; made by `custom_op`.

    Parameters
    ----------
    name : str
        "namespace::name".
    fn : callable
        Computes the result from tensors and other values.
    device_types : str, sequence of str or None
        What `fn` is for; None is every device.

    Notes
    -----
    A call runs the function off the tape. Its gradient is that of `register_autograd`;
    without one, `backward` raises. `fw.jit` traces what the function does.
    """

    def __init__(
        self, name: str, fn: Callable[..., Any], device_types: Any = None
    ) -> None:
        self.name = name
        self.__name__ = name.rpartition("::")[2]
        self.__doc__ = fn.__doc__
        self._signature = inspect.signature(fn)
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        for kind in _kinds(device_types):
            self._kernels[kind] = fn
        self._function: type[Function] = _function(self, None, None)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Return `fn`: shapes of results are those of the function itself."""
        return fn

    register_vmap = register_fake
    register_torch_dispatch = register_fake

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Any = None, /
    ) -> Any:
        """Take another function for tensors of some devices; also a decorator.

        Parameters
        ----------
        device_types : str or sequence of str
            As `device.type`; "gpu" is "vulkan".
        """

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for kind in _kinds(device_types):
                self._kernels[kind] = function
            return function

        return register if fn is None else register(fn)

    def register_autograd(
        self,
        backward: Callable[..., Any],
        /,
        *,
        setup_context: Callable[..., Any] | None = None,
    ) -> None:
        """Take a gradient rule.

        Parameters
        ----------
        backward : callable
            `backward(ctx, *grads)` returns a gradient, or None, for each input.
        setup_context : callable or None
            `setup_context(ctx, inputs, output)` leaves to it what it needs.
        """
        self._function = _function(self, backward, setup_context)

    def kernel(self, inputs: Iterable[Any]) -> Callable[..., Any]:
        """Return the function for the device of the inputs.

        Raises
        ------
        NotImplementedError
            If there is none for that device.
        """
        kinds = [each.device.type for each in inputs if isinstance(each, Tensor)]
        for kind in (*kinds[:1], None):
            if kind in self._kernels:
                return self._kernels[kind]
        raise NotImplementedError(
            f"{self.name}: there is no kernel for {kinds[0] if kinds else 'no tensor'};"
            f" there is one for {', '.join(map(str, self._kernels))}"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function for the device of its tensors."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._function.apply(*bound.args, *bound.kwargs.values())

    def __repr__(self) -> str:
        return f"<CustomOpDef({self.name})>"


def _kinds(device_types: Any) -> tuple[str | None, ...]:
    listed = (device_types,) if isinstance(device_types, str | None) else device_types
    return tuple("vulkan" if each == "gpu" else each for each in listed)


def _function(
    op: CustomOpDef,
    rule: Callable[..., Any] | None,
    setup: Callable[..., Any] | None,
) -> type[Function]:
    """Return the `Function` of an op and its gradient rule."""
    kinds = list(op._signature.parameters.values())
    named = [each.name for each in kinds if each.kind is each.KEYWORD_ONLY]
    count = len(kinds) - len(named)

    def forward(*inputs: Any) -> Any:
        kernel = op.kernel(inputs)
        return kernel(*inputs[:count], **dict(zip(named, inputs[count:])))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        if setup is None:
            return
        if named:
            words = dict(zip(named, inputs[count:]))
            setup(ctx, inputs[:count], words, output)
        else:
            setup(ctx, inputs, output)

    def backward(ctx: Any, *grads: Any) -> Any:
        if rule is None:
            raise GradError(
                f"{op.name}: there is no gradient rule; give one to register_autograd"
            )
        found = rule(ctx, *grads)
        listed = found if isinstance(found, tuple) else (found,)
        return (*listed, *[None] * len(named))

    methods = {
        "forward": staticmethod(forward),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
    }
    return type(op.__name__, (Function,), methods)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Return a function as one op, or the decorator that does so.

    Parameters
    ----------
    name : str
        "namespace::name"; then also `fw.ops.namespace.name`.
    fn : callable or None
    mutates_args : str or iterable of str
        Names of arguments that it changes in place; has no effect: changes are seen.
    device_types : str, sequence of str or None
        Devices that `fn` is for; None is all.
    schema, tags
        Have no effect.

    Returns
    -------
    CustomOpDef or callable

    Raises
    ------
    ValueError
        If the name has no namespace, or one that is an op of the library.

    Examples
    --------
    >>> @custom_op("mine::double", mutates_args=())
    ... def double(x: fw.Tensor) -> fw.Tensor:
    ...     return x * 2
    >>> double.register_autograd(lambda ctx, grad: grad * 2)
    >>> x = fw.ones(2, requires_grad=True)
    >>> double(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """
    space, colons, short = name.partition("::")
    if not (space and colons and short.isidentifier()):
        raise ValueError(f"custom_op: name is {name!r}; it must be 'namespace::name'")
    if space in vars(ops):
        raise ValueError(
            f"custom_op: {space!r} is a name of the library; choose another namespace"
        )

    def define(function: Callable[..., Any]) -> CustomOpDef:
        made = _ops[name] = CustomOpDef(name, function, device_types)
        return made

    return define if fn is None else define(fn)


def _namespace(space: str) -> Any:
    """Return the ops of a namespace, which `fw.ops` is asked for."""
    if space == "aten":
        return resolved("aten:aten")
    names = {
        name.partition("::")[2]: op
        for name, op in _ops.items()
        if name.partition("::")[0] == space
    }
    if not names:
        raise AttributeError(f"module {ops.__name__!r} has no attribute {space!r}")
    return SimpleNamespace(**names)


vars(ops)["__getattr__"] = _namespace


def _found(name: str, op: Any) -> CustomOpDef:
    found = op if isinstance(op, CustomOpDef) else _ops.get(op)
    if found is None:
        raise ValueError(f"{name}: there is no op {op!r}; make it by custom_op first")
    return found


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Return `func`, or a decorator; see `CustomOpDef.register_fake`.

    Parameters
    ----------
    op : CustomOpDef or str
        The op, or its name.
    func : callable or None
        Returns empty tensors like the op's results; None makes a decorator.
    **options : object
        `lib` and the like, without effect.
    """
    found = _found("register_fake", op)
    return found.register_fake if func is None else found.register_fake(func)


def register_kernel(
    op: Any, device_types: Any, func: Any = None, /, **options: Any
) -> Any:
    """Take another function for some devices; see `CustomOpDef.register_kernel`.

    Parameters
    ----------
    op : CustomOpDef or str
        The op, or its name.
    device_types : str, sequence of str or None
        Types of the devices: "cpu", "gpu"; None means all.
    func : callable or None
        Takes what the op takes; None makes a decorator.
    **options : object
        `lib` and the like, without effect.
    """
    return _found("register_kernel", op).register_kernel(device_types, func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """Take a gradient rule; see `CustomOpDef.register_autograd`.

    Parameters
    ----------
    op : CustomOpDef or str
        The op, or its name.
    backward : callable
        Takes a context and the gradients of the results; returns those of the inputs.
    setup_context : callable or None
        Takes a context, inputs and output, and saves what `backward` needs.
    lib : object
        Without effect.
    """
    _found("register_autograd", op).register_autograd(
        backward, setup_context=setup_context
    )


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
