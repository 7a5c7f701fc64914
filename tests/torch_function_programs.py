"""Programs with `__torch_function__`, for this library and for PyTorch alike.

Each takes the library, and returns what is to be equal: lists of names, of types and of
numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

Program = Callable[[Any, Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Add a program to the table."""
    PROGRAMS[function.__name__] = function
    return function


def recorder(torch: Any, overrides: Any, log: list[Any]) -> Any:
    """Return a mode that writes the names of functions to a list."""

    class Recorder(overrides.TorchFunctionMode):  # type: ignore[misc]  # of either
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append(func.__name__)
            return func(*args, **(kwargs or {}))

    return Recorder()


@program
def names_in_a_mode(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []
    x, y = torch.ones(2, 2), torch.ones(2, 2)
    whole = torch.ones(2, dtype=torch.int32)
    layer = torch.nn.Linear(2, 2)
    functional = torch.nn.functional
    with recorder(torch, overrides, log):
        _ = x + y, 1 + x, x - 1, 1 - x, x * y, 2 * x, x / y, x // y, x % 3, x**2, 2**x
        _ = x @ y, -x, abs(x), ~whole, whole & 1, 1 | whole, whole ^ whole, x == y
        _ = x != y, x < 1, x >= 1, x[0], x.shape, x.T, x.dtype, len(x), float(x[0, 0])
        _ = x.sum(), torch.cat([x, y]), torch.zeros(2), torch.tensor([1.0]), x.detach()
        _ = functional.relu(x), functional.softmax(x, dim=1), layer(x), x.reshape(4)
        _ = torch.einsum("ij,jk->ik", x, y), x.to(torch.float64), x.requires_grad
        _ = (
            torch.split(x, 1),
            x.numel(),
            x.size(0),
            torch.is_tensor(x),
            isinstance(x, int),
        )
        x += 1
        x[0] = 2.0
        operator.imul(x, 2)
        x.requires_grad = True
        layer(x).sum().backward()
    x + y
    return log


@program
def arguments_of_a_mode(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []

    class Mode(overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append((func is torch.cumsum, len(args), sorted(kwargs or {})))
            return func(*args, **(kwargs or {}))

    x = torch.arange(3.0)
    with Mode():
        torch.cumsum(x, dim=0)
        torch.cumsum(x, 0)
    return log


@program
def nested_modes(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []

    class Named(overrides.TorchFunctionMode):  # type: ignore[misc]
        def __init__(self, name: str, extra: bool) -> None:
            super().__init__()
            self.name, self.extra = name, extra

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append((self.name, func.__name__))
            if self.extra:
                torch.zeros(1)
            return func(*args, **(kwargs or {}))

    with Named("outer", False), Named("inner", True):
        torch.ones(2).exp()
    outer, inner = Named("a", False), Named("b", False)
    with inner, outer:
        torch.ones(1)
    with inner, inner:
        torch.ones(1)
    return log


@program
def a_mode_replaces_results(torch: Any, overrides: Any) -> Any:
    class Sevens(overrides.BaseTorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.zeros:
                return torch.full(args, 7.0)
            return super().__torch_function__(func, types, args, kwargs)

    with Sevens():
        inside = torch.zeros(2, 2).tolist()
    return inside, torch.zeros(1).tolist()


@program
def a_mode_ends_with_an_error(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []
    try:
        with recorder(torch, overrides, log):
            raise KeyError("x")
    except KeyError:
        torch.ones(1)
    return log


@program
def no_mode_has_an_answer(torch: Any, overrides: Any) -> Any:
    class Nothing(overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, *_: Any, **__: Any) -> Any:
            return NotImplemented

    try:
        with Nothing():
            torch.ones(1)
    except TypeError as error:
        return type(error).__name__
    return None


def logging_class(torch: Any, log: list[Any]) -> Any:
    """Return a subclass that writes what it sees to a list."""

    class Logging(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append((func.__name__, [kind.__name__ for kind in types]))
            return super().__torch_function__(func, types, args, kwargs)

    return Logging


@program
def a_subclass_sees_calls(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []
    kind = logging_class(torch, log)
    x = torch.arange(4.0).as_subclass(kind)
    values = [x + 1, 1 + x, x * x, torch.exp(x), x.sum(), x[1:], torch.cat([x, x])]
    values += [torch.nn.functional.softmax(x, dim=0), x.max(), torch.ones(4) + x]
    values += [*x.split(2), x.reshape(2, 2).T, *torch.sort(x), -x, x > 1, x.detach()]
    names = [type(each).__name__ for each in values]
    with torch._C.DisableTorchFunctionSubclass():
        inside = x + 1
    log.append(type(inside).__name__)
    return log, names, x.shape == torch.Size([4]), x.tolist()


@program
def subclasses_come_first(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []

    class Base(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            log.append((cls.__name__, [kind.__name__ for kind in types]))
            return super().__torch_function__(func, types, args, kwargs)

    class Derived(Base):
        pass

    class Other(Base):
        pass

    x = torch.ones(2)
    base, derived, other = (x.as_subclass(kind) for kind in (Base, Derived, Other))
    found = [type(torch.add(base, derived)).__name__]
    found.append(type(torch.add(derived, base)).__name__)
    try:
        torch.add(derived, other)
    except TypeError as error:
        found.append(type(error).__name__)
    found.append(type(torch.stack([x, base, derived])).__name__)
    return log, found


@program
def a_mode_before_a_subclass(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []
    kind = logging_class(torch, log)
    x = torch.ones(2).as_subclass(kind)
    with recorder(torch, overrides, log):
        y = torch.add(x, 1)
    return log, type(y).__name__


@program
def functions_by_a_table(torch: Any, overrides: Any) -> Any:
    # Other classes are asked here as long as there is a tensor's that is.
    _kept = logging_class(torch, [])
    handled: dict[Any, Any] = {}

    def implements(function: Any) -> Any:
        def register(own: Any) -> Any:
            handled[function] = own
            return own

        return register

    class Scalar:
        def __init__(self, size: int, value: float) -> None:
            self.size, self.value = size, value

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func not in handled:
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    @implements(torch.mean)
    def mean(x: Any) -> Any:
        return x.value / x.size

    @implements(torch.nn.functional.relu)
    def relu(x: Any, inplace: bool = False) -> Any:
        return Scalar(x.size, max(x.value, 0))

    @implements(torch.stack)
    def stack(parts: Any, dim: int = 0) -> Any:
        return len(parts)

    x = Scalar(5, 2.0)
    found = [torch.mean(x), torch.nn.functional.relu(Scalar(2, -1)).value]
    found.append(torch.stack([x, x]))
    try:
        torch.exp(x)
    except TypeError:
        found.append("refused")
    return found


@program
def metadata_is_kept(torch: Any, overrides: Any) -> Any:
    class Noted(torch.Tensor):  # type: ignore[misc]
        @staticmethod
        def __new__(cls: Any, data: Any, note: Any = None) -> Any:
            return torch.as_tensor(data).as_subclass(cls)

        def __init__(self, data: Any, note: Any = None) -> None:
            self.note = note

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            notes = [each.note for each in args if isinstance(each, cls)]
            result = super().__torch_function__(func, types, args, kwargs)
            if isinstance(result, cls):
                result.note = notes[0] if notes else None
            return result

    x = Noted([1.0, 2.0], note="m")
    y = x * 2
    return y.note, y.tolist(), type(y).__name__, torch.sum(y).note


@program
def gradients_of_a_subclass(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []
    kind = logging_class(torch, log)
    leaf = torch.ones(3, requires_grad=True)
    x = leaf.as_subclass(kind)
    (x * x).sum().backward()
    own = torch.ones(2).as_subclass(kind).requires_grad_()
    (own * 3).sum().backward()
    return leaf.grad.tolist(), x.requires_grad, x.is_leaf, own.grad.tolist()


@program
def a_plain_subclass(torch: Any, overrides: Any) -> Any:
    class Plain(torch.Tensor):  # type: ignore[misc]
        pass

    x = torch.ones(2).as_subclass(Plain)
    base = torch.zeros(2)
    shared = base.as_subclass(Plain)
    shared[0] = 5.0
    made = torch.Tensor._make_subclass(Plain, base, True)
    found = [type(each).__name__ for each in (x + 1, 1 + x, x.sum(), x[0], x + base)]
    return found, base.tolist(), made.requires_grad, made.is_leaf, type(made).__name__


@program
def disabled_subclasses(torch: Any, overrides: Any) -> Any:
    class Quiet(torch.Tensor):  # type: ignore[misc]
        __torch_function__ = torch._C._disabled_torch_function_impl

    x = torch.ones(2).as_subclass(Quiet)
    return type(x + 1).__name__, type(x).__name__, overrides.has_torch_function((x,))


@program
def questions(torch: Any, overrides: Any) -> Any:
    class Like:
        @classmethod
        def __torch_function__(cls, *_: Any, **__: Any) -> Any:
            return "like"

    log: list[Any] = []
    sub = torch.ones(1).as_subclass(logging_class(torch, log))
    found = [overrides.has_torch_function((each,)) for each in (torch.ones(1), sub)]
    found += [overrides.has_torch_function_unary(Like()), overrides.is_tensor_like(1)]
    found += [overrides.is_tensor_like(Like()), overrides.is_tensor_like(torch.ones(1))]
    found += [overrides.has_torch_function_variadic(1, None, Like())]

    def own(x: Any, scale: int = 1) -> Any:
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(own, (x,), x, scale=scale)
        return scale

    found += [own(1), own(Like())]
    with recorder(torch, overrides, log):
        found += [own(1, 3), overrides.has_torch_function(())]
    found += [log[-1]]
    wrapped = overrides.wrap_torch_function(lambda x: (x,))(lambda x: "own")
    found += [wrapped(1), wrapped(Like())]
    get = torch.Tensor.shape.__get__
    found += [overrides.is_tensor_method_or_property(torch.Tensor.add)]
    found += [overrides.is_tensor_method_or_property(get)]
    found += [overrides.resolve_name(get), overrides.resolve_name(torch.zeros_like)]
    found += [overrides.resolve_name(torch.nn.functional.relu)]
    return found


@program
def disabled_modes(torch: Any, overrides: Any) -> Any:
    log: list[Any] = []
    with recorder(torch, overrides, log):
        torch.ones(1)
        with torch._C.DisableTorchFunction():
            torch.zeros(1)
        with torch._C.DisableTorchFunctionSubclass():
            torch.rand(1)
    return log
