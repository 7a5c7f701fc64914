"""Interception of public functions, for `base.torch_function`.

While a mode or a class with `__torch_function__` exists, the code of each public
function, method and property is replaced by one that asks them. The functions stay the
same objects, wherever a program has put them, and get their own code back afterwards.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from vkbackend import fork_safety

from . import fft, linalg, nn, ops, special
from .base import torch_function
from .base.late_modules import ROOT
from .dispatch.op import REGISTRY, Op
from .jit.trace_cache import Jitted
from .tensor.tensor import Tensor

IGNORED = frozenset(
    """
    allow_float16_accumulation are_deterministic_algorithms_enabled
    autocast_decrement_nesting autocast_increment_nesting autotune can_cast
    clear_autocast_cache compile default_generator device devices eval finfo
    initial_seed is_storage is_tensor jit load manual_seed promote_types save seed
    typename use_deterministic_algorithms vmap get_default_device get_default_dtype
    get_deterministic_debug_mode get_device_module get_float32_matmul_precision
    get_num_interop_threads get_num_threads get_rng_state get_autocast_cpu_dtype
    get_autocast_dtype get_autocast_gpu_dtype is_anomaly_check_nan_enabled
    is_anomaly_enabled is_autocast_available is_autocast_cache_enabled
    is_autocast_cpu_enabled is_autocast_enabled
    is_deterministic_algorithms_warn_only_enabled is_distributed is_grad_enabled
    no_grad enable_grad set_grad_enabled inference_mode
    is_index_checks_enabled is_inference_mode_enabled is_warn_always_enabled
    set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
    set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
    set_autocast_gpu_dtype set_default_device set_default_dtype
    set_default_tensor_type set_deterministic_debug_mode set_flush_denormal
    set_float32_matmul_precision set_index_checks set_num_interop_threads
    set_num_threads set_printoptions set_rng_state set_warn_always sym_float sym_int
    sym_max sym_min sym_not
    """.split()
)
"""Functions that no tensor and no mode answers: settings, and questions of types."""

INTERNAL = frozenset(
    "alias as_subclass from_data from_host from_stored host_view make needs_grad"
    " register_hook results spec view_of".split()
)
"""Attributes of `Tensor` that are not PyTorch's, or that are never asked about."""

OPERATORS = {
    **{f"__{name}__": name for name in "add sub mul matmul neg abs pow".split()},
    **{f"__{name}__": name for name in "ne lt le gt ge".split()},
    **{f"__i{name}__": f"{name}_" for name in "add sub mul pow".split()},
    **{f"__r{name}__": name for name in "add mul".split()},
    **{f"__r{name}__": f"bitwise_{name}" for name in "and or xor".split()},
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__pos__": "positive",
}
"""Python's operators that PyTorch reports as another method."""

SPECIAL = frozenset(
    """
    __and__ __array__ __bool__ __complex__ __contains__ __deepcopy__ __eq__ __float__
    __floordiv__ __format__ __getitem__ __iand__ __ifloordiv__ __ilshift__ __index__
    __int__ __invert__ __ior__ __irshift__ __ixor__ __len__ __lshift__ __or__ __repr__
    __reversed__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rpow__ __rrshift__
    __rshift__ __rsub__ __rtruediv__ __setitem__ __xor__
    """.split()
)
"""Special methods that are reported as themselves."""

NAMESPACES: dict[str, ModuleType] = {
    "torch.nn.functional": nn.functional,
    "torch.linalg": linalg,
    "torch.fft": fft,
    "torch.special": special,
}


class Target(NamedTuple):
    """A function whose calls are intercepted.

    Attributes
    ----------
    name : str
        PyTorch's full name of it.
    func : callable
        What is reported: the function, or what its user has called.
    code : FunctionType or Op
        What runs.
    signatures : tuple of Signature
        Those of `code` and `func`, where layers call the one instead of the other.
    """

    name: str
    func: Callable[..., Any]
    code: Any
    signatures: tuple[inspect.Signature, ...] = ()


def _is_ours(value: object) -> bool:
    return isinstance(value, FunctionType) and value.__module__.startswith(ROOT)


def _functions() -> Iterator[Target]:
    """Yield the public functions of modules."""
    spaces = {"torch": sys.modules[ROOT], **NAMESPACES}
    for space, module in spaces.items():
        for name, value in vars(module).items():
            if name[:1] == "_" or name in IGNORED:
                continue
            if _is_ours(value) or isinstance(value, Op):
                yield Target(f"{space}.{name}", value, value)


def _internal_functions(known: set[int]) -> Iterator[Target]:
    """Yield functions that layers call, and whose public forms take the same."""
    functional = vars(nn.functional)
    for name, value in vars(ops).items():
        public = functional.get(name)
        if public is None or id(value) in known or not _takes_same(value, public):
            continue
        if _is_ours(value) or isinstance(value, Op):
            signatures = inspect.signature(value), inspect.signature(public)
            yield Target(f"torch.nn.functional.{name}", public, value, signatures)


def _takes_same(function: Any, public: Any) -> bool:
    """Return whether a public function has the parameters of a function.

    The first may have another name, and others may be taken by name alone.
    """
    if not callable(function) or isinstance(function, type):
        return False
    given, taken = (
        [*inspect.signature(one).parameters.values()] for one in (function, public)
    )
    by_position = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in given)
    names = [each.name for each in given]
    return by_position and [each.name for each in taken][1 : len(names)] == names[1:]


def _as_public(
    signatures: Sequence[inspect.Signature],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a function as those of its public form."""
    own, public = signatures
    bound = own.bind(*args, **kwargs).args
    taken = public.parameters.values()
    by_name = {
        each.name: value
        for each, value in zip(taken, bound)
        if each.kind is each.KEYWORD_ONLY
    }
    return bound[: len(bound) - len(by_name)], by_name


def _methods() -> Iterator[Target]:
    """Yield the methods and properties of `Tensor`."""
    seen: set[str] = set()
    for kind in Tensor.__mro__[:-1]:
        for name, value in vars(kind).items():
            if name in seen or name in INTERNAL:
                continue
            seen.add(name)
            full = f"torch.Tensor.{name}"
            if isinstance(value, property):
                yield from _accessors(full, value)
            elif name in OPERATORS:
                yield Target(full, getattr(Tensor, OPERATORS[name]), value)
            elif name[:1] != "_" or name in SPECIAL:
                if _is_ours(value) or isinstance(value, Op):
                    yield Target(full, value, value)


def _accessors(name: str, value: property) -> Iterator[Target]:
    found: Any = value
    if name.rpartition(".")[2][:1] == "_" and not name.endswith("._base"):
        return
    yield Target(f"{name}.__get__", found.__get__, value.fget)
    if value.fset is not None:
        yield Target(f"{name}.__set__", found.__set__, value.fset)


def namespace_of(name: str) -> Any:
    """Return the module, or `Tensor`, that has a function of this full name."""
    if name.startswith("torch.Tensor."):
        return Tensor
    return NAMESPACES.get(name.rpartition(".")[0], sys.modules[ROOT])


_table: list[Target] = []


def table() -> list[Target]:
    """Return what is intercepted, made when it is first asked for."""
    if not _table:
        targets = [*_methods(), *_functions()]
        targets += _internal_functions({id(each.code) for each in targets})
        _table[:] = targets
    return _table


def _stand_in(*args: Any, _handler: Any, **kwargs: Any) -> Any:
    return _handler(args, kwargs)


class _Replaced(NamedTuple):
    """A function whose code was replaced, and what it had."""

    function: Any
    code: Any
    defaults: dict[str, Any] | None

    def restore(self) -> None:
        """Give the function its own code back; may be repeated."""
        self.function.__code__ = self.code
        self.function.__kwdefaults__ = self.defaults


_replaced: list[_Replaced] = []
_lock = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.RLock)


def _replace(
    function: FunctionType,
    handler_of: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> None:
    """Let a function hand its calls to a handler, which is made of what it did."""
    code, defaults = function.__code__, function.__kwdefaults__
    original = FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    original.__kwdefaults__ = defaults
    _replaced.append(_Replaced(function, code, defaults))
    # In this order each thread finds what its code needs at any time.
    function.__kwdefaults__ = {**(defaults or {}), "_handler": handler_of(original)}
    function.__code__ = _stand_in.__code__.replace(
        co_freevars=code.co_freevars, co_name=code.co_name
    )


def _of_function(
    target: Target,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def handler_of(original: Callable[..., Any]) -> Callable[..., Any]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return torch_function.call(target.func, original, args, kwargs)

        def handle_internal(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            args, kwargs = _as_public(target.signatures, args, kwargs)
            return torch_function.call(target.func, original, args, kwargs)

        return handle_internal if target.signatures else handle

    return handler_of


def _of_ops(
    public: dict[int, Callable[..., Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def handler_of(original: Callable[..., Any]) -> Callable[..., Any]:
        def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            func = public.get(id(args[0]))
            if func is None:
                return torch_function.unseen(original, args, kwargs)

            def run(*given: Any, **options: Any) -> Any:
                return original(args[0], *given, **options)

            return torch_function.call(func, run, args[1:], kwargs)

        return handle

    return handler_of


def _of_jitted(original: Callable[..., Any]) -> Callable[..., Any]:
    def handle(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        asked = torch_function.relevant_args(args[1:], kwargs)
        if torch_function.modes.top.value or torch_function.overloaded_args(asked):
            # A replay would call nothing that they could see.
            return args[0]._function(*args[1:], **kwargs)
        return original(*args, **kwargs)

    return handle


def _install() -> None:
    public: dict[int, Callable[..., Any]] = {}
    functions: dict[int, Target] = {}
    for target in table():
        if isinstance(target.code, Op):
            public.setdefault(id(target.code), target.func)
        else:
            functions.setdefault(id(target.code), target)
    calls = {vars(kind).get("__call__") for op in _ops() for kind in type(op).__mro__}
    for call in calls:
        if isinstance(call, FunctionType):
            _replace(call, _of_ops(public))
    for target in functions.values():
        _replace(target.code, _of_function(target))
    jitted: Any = vars(Jitted)["__call__"]
    _replace(jitted, _of_jitted)


def _ops() -> list[Op[..., Any]]:
    return list(REGISTRY.values())


def update() -> None:
    """Intercept the functions, or stop that, by whether anyone is to be asked."""
    with _lock:
        if torch_function.is_wanted():
            if not _replaced:
                _install()
        else:
            while _replaced:
                _replaced[-1].restore()
                _replaced.pop()
