"""Diagnosis of failed calls: which argument is of a kind that is not accepted.

Calls do not check the kind of each argument: that would cost every call. A call that
failed is looked at again here, by the annotations of its function, so the error names
the function and the argument that its user wrote, not what failed inside.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from vkbackend.errors import Error

from ..base.philox import Generator
from ..eager.base_tensor import TensorCore

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

LIBRARY = "vkbackend.framework"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, TensorCore)


def _is_single(value: Any) -> bool:
    """Return whether a value may stand for one number, by its elements if any."""
    if isinstance(value, np.ndarray | TensorCore):
        return int(np.prod(value.shape)) == 1
    return not isinstance(value, str | bytes)


def _is_number(value: Any) -> bool:
    if isinstance(value, int | float):
        return True
    takes = hasattr(value, "__float__") or hasattr(value, "__index__")
    return takes and _is_single(value)


def _is_int(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return False
    return hasattr(value, "__index__") and _is_single(value)


def is_flag(value: Any) -> bool:
    """Return whether a value is a bool, or may stand for one."""
    return isinstance(value, bool | int | np.bool_) or (
        _is_tensor(value) and value.ndim == 0
    )


def _each(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def accept(values: Any) -> bool:
        if isinstance(values, str | bytes | Mapping):
            return False
        if isinstance(values, np.ndarray | TensorCore):
            return values.ndim == 1
        return isinstance(values, Iterable) and (
            not isinstance(values, list | tuple) or all(map(accepts, values))
        )

    return accept


def _are_tensors(values: Any) -> bool:
    return not isinstance(values, np.ndarray) and _each(_is_tensor)(values)


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _is_size(value: Any) -> bool:
    return value is None or _is_int(value)


KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Tensor": (_is_tensor, "a tensor"),
    # By its name, as that class is declared above this package.
    "QuantizedTensor": (
        lambda each: type(each).__name__ == "QuantizedTensor",
        "quantized weights",
    ),
    "float": (_is_number, "a number"),
    "complex": (lambda each: isinstance(each, complex) or _is_number(each), "a number"),
    "Number": (_is_number, "a number"),
    "int": (_is_int, "an int"),
    "Int": (_is_int, "an int"),
    "bool": (is_flag, "a bool"),
    "Bool": (is_flag, "a bool"),
    "str": (lambda each: isinstance(each, str), "a string"),
    "None": (lambda each: each is None, "None"),
    "Sequence[int]": (_each(_is_int), "a sequence of ints"),
    "tuple[int, ...]": (_each(_is_int), "a sequence of ints"),
    "tuple[int, int]": (_each(_is_int), "two ints"),
    "tuple[int | None, ...]": (_each(_is_size), "a sequence of ints"),
    "Shape": (_each(_is_int), "a sequence of ints"),
    "Sequence[float]": (_each(_is_number), "a sequence of numbers"),
    "tuple[float, ...]": (_each(_is_number), "a sequence of numbers"),
    "tuple[float, float]": (_each(_is_number), "two numbers"),
    "Sequence[Tensor]": (_are_tensors, "a sequence of tensors"),
    "Iterable[Tensor]": (_are_tensors, "a sequence of tensors"),
    "Sequence[Tensor | None]": (_each(lambda _: True), "a sequence of tensors"),
    "Callable[..., Any]": (callable, "a function"),
    "Generator": (lambda each: isinstance(each, Generator), "a generator"),
    "RandomGenerator": (lambda each: isinstance(each, Generator), "a generator"),
    "Iterable[int]": (_each(_is_int), "a sequence of ints"),
    "Params": (_is_collection, "an iterable of parameters, as model.parameters()"),
}
"""What an annotation accepts, and how an error says it; others accept everything."""

ALIASES = {
    "Sizes": "int | Sequence[int]",
    "Dims": "int | Sequence[int] | None",
    "Sections": "int | Sequence[int]",
    "Wanted": "int | tuple[int | None, ...] | None",
    "Lengths": "Tensor | Sequence[int]",
}
"""Unions that have a name."""


def _parts(annotation: str) -> list[str]:
    """Return the members of a union, brackets kept whole."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            parts.append(annotation[start:at].strip())
            start = at + 1
    parts.append(annotation[start:].strip())
    return [one for part in parts for one in _resolved(part)]


def _resolved(part: str) -> list[str]:
    return _parts(ALIASES[part]) if part in ALIASES else [part]


def told(value: object) -> str:
    """Return how an error tells an argument of the wrong kind."""
    if value is None or isinstance(value, str | float | int):
        return repr(value)
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def wrong_kind(parameter: inspect.Parameter, value: Any) -> str | None:
    """Return what an argument is and must be, if its annotation does not accept it."""
    annotation = parameter.annotation
    if value is parameter.default or not isinstance(annotation, str):
        return None
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return None
    values = value if parameter.kind is inspect.Parameter.VAR_POSITIONAL else (value,)
    parts = _parts(annotation)
    if not set(parts) <= KINDS.keys():
        return None
    for each in values:
        if not any(KINDS[part][0](each) for part in parts):
            wanted = list(dict.fromkeys(KINDS[part][1] for part in parts))
            if each is not value and len(parts) == 1:
                return f"{told(each)}; each must be {wanted[0]}"
            inside = _inside(each, parts)
            return f"{told(each)}{inside}; it must be {' or '.join(wanted)}"
    return None


def need_tensor(name: str, parameter: str, value: object) -> None:
    """Raise `TypeError` if an argument is no tensor."""
    if not isinstance(value, TensorCore):
        raise TypeError(f"{name}: {parameter} is {told(value)}; it must be a tensor")


def _inside(value: Any, parts: list[str]) -> str:
    """Return what a sequence has that it must not, if that is what is wrong."""
    if not isinstance(value, list | tuple):
        return ""
    sequences = [part for part in parts if "[" in part or part == "Shape"]
    accepts: Callable[[Any], bool] = _is_tensor
    if not any("Tensor" in part for part in sequences):
        accepts = _is_size if any("None" in part for part in sequences) else _is_int
    for each in value if sequences else ():
        if not accepts(each):
            return f" with {told(each)}"
    return ""


def need_flags(name: str, flags: Iterable[str], kwargs: Mapping[str, Any]) -> None:
    """Raise `TypeError` if an argument that must be a bool is neither that nor an int.

    Parameters
    ----------
    name : str
        The function's.
    flags : iterable of str
        The parameters.
    kwargs
        The call's keyword arguments.
    """
    for flag in flags:
        value = kwargs.get(flag, False)
        if value is not True and value is not False and not is_flag(value):
            raise TypeError(f"{name}: {flag} is {told(value)}; it must be a bool")


def flag_places(function: Callable[..., Any]) -> dict[int, str]:
    """Return the positions of a function's parameters that must be bools."""
    code = getattr(function, "__code__", None)
    kinds = getattr(function, "__annotations__", {})
    names = code.co_varnames[: code.co_argcount] if code else ()
    return {at: name for at, name in enumerate(names) if kinds.get(name) == "bool"}


def need_flags_among(name: str, places: Mapping[int, str], args: Sequence[Any]) -> None:
    """Raise `TypeError` as `need_flags`, for positional arguments."""
    for at, flag in places.items():
        if at < len(args) and args[at] is not True and args[at] is not False:
            need_flags(name, (flag,), {flag: args[at]})


@functools.cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature."""
    return inspect.signature(function)


def _explained(text: str) -> TypeError:
    error = TypeError(text)
    error.explained = True  # type: ignore[attr-defined]  # see `explain_method`
    return error


def diagnosed(
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> TypeError | None:
    """Return the error of a call with too many or few arguments, or of a wrong kind.

    Parameters
    ----------
    name : str
        The function's, for its users.
    signature : inspect.Signature
    args, kwargs
        The call's.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(each for each in signature.parameters if each != "self")
        what = str(error).replace("'", "`")
        return _explained(f"{name}: {what}; it takes ({names})")
    for parameter, value in bound.arguments.items():
        wrong = wrong_kind(signature.parameters[parameter], value)
        if wrong is not None:
            return _explained(f"{name}: {parameter} is {wrong}")
    return None


def reraise(
    error: Exception,
    name: str,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> NoReturn:
    """Raise the error of a failed call: what is wrong with its arguments, or itself."""
    found = None
    try:
        if not isinstance(error, Error) and not str(error).startswith(f"{name}: "):
            found = diagnosed(name, signature, args, kwargs)
        raise error if found is None else found from None
    finally:
        # The traceback has this frame: a cycle would hold the arguments of the call.
        del error, found


def explained_op(slow_path: Function) -> Function:
    """Return the slow path of an op, whose errors name arguments of a wrong kind."""

    @functools.wraps(slow_path)
    def call(self: Any, given: tuple[Any, ...], key: Any) -> Any:
        try:
            return slow_path(self, given, key)
        except Exception as error:
            signature = signature_of(self.function)
            reraise(error, self.name, signature, (), dict(zip(self.names, given)))

    return call  # type: ignore[return-value]  # takes what the method does


def explained(function: Function, module: str | None = None) -> Function:
    """Return a function whose errors name its arguments of a wrong kind.

    Parameters
    ----------
    function : callable
    module : str or None
        Where it then is, if it is not left where it was; a pickle names that.
    """
    flags = frozenset(
        name for name, kind in function.__annotations__.items() if kind == "bool"
    )
    places = flag_places(function)
    least = min(places, default=sys.maxsize)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > least:
            need_flags_among(function.__name__, places, args)
        if kwargs and not flags.isdisjoint(kwargs):
            need_flags(function.__name__, flags, kwargs)
        try:
            return function(*args, **kwargs)
        except Exception as error:
            reraise(error, function.__name__, signature_of(function), args, kwargs)

    if module is not None:
        call.__module__ = module
    return call  # type: ignore[return-value]  # takes what the function does


def public_name(instance: object) -> str:
    """Return the name of the library's class that an object's class is, or is from."""
    for each in type(instance).__mro__:
        if each.__module__.startswith(LIBRARY):
            return each.__name__
    return type(instance).__name__


def explain_method(
    error: Exception,
    instance: object,
    method: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Raise what is wrong with the arguments of a failed method, if it is theirs.

    Methods that a user has written, and errors that say what is wrong, are left alone.
    """
    if isinstance(error, Error) or hasattr(error, "explained"):
        return
    if not getattr(method, "__module__", "").startswith(LIBRARY):
        return
    name = public_name(instance)
    found = diagnosed(name, signature_of(method), (instance, *args), kwargs)
    try:
        if found is not None:
            raise found from None
    finally:
        del error, found  # as in `reraise`


def explain_constructor(cls: type) -> None:
    """Let the constructor of a class of the library name its wrong arguments."""
    init = vars(cls).get("__init__")
    if init is None or not cls.__module__.startswith(LIBRARY):
        return

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except Exception as error:
            name, signature = public_name(self), signature_of(init)
            reraise(error, name, signature, (self, *args), kwargs)

    cls.__init__ = construct  # type: ignore[misc]  # what was there, explained


def explaining(cls: Class) -> Class:
    """Decorate a class whose constructor names its wrong arguments."""
    explain_constructor(cls)
    return cls
