"""Tracing: a module or function runs with proxies, and leaves a graph."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any

from ..base import torch_function
from ..nn.container import Sequential
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor.tensor import Tensor
from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate
from .proxy import Proxy, TracerBase

_wrapped: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: Any) -> Any:
    """Let a function of the calling module be a node where it takes a proxy.

    Parameters
    ----------
    fn_or_name : str or callable
        Its name, at the top of a module; or the function, by a decorator.

    Returns
    -------
    str or callable
        The argument.
    """
    scope = sys._getframe(1).f_globals
    if isinstance(fn_or_name, FunctionType):
        _wrapped.append((fn_or_name.__globals__, fn_or_name.__name__))
    elif isinstance(fn_or_name, str):
        _wrapped.append((scope, fn_or_name))
    else:
        raise RuntimeError(
            f"wrap: {fn_or_name!r} is given; it must be a function of a module, or its"
            " name"
        )
    return fn_or_name


_STARS = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


_ORDER = {
    inspect.Parameter.POSITIONAL_ONLY: 0,
    inspect.Parameter.POSITIONAL_OR_KEYWORD: 0,
    inspect.Parameter.KEYWORD_ONLY: 1,
    inspect.Parameter.VAR_POSITIONAL: 2,
    inspect.Parameter.VAR_KEYWORD: 3,
}
"""Parameters in the order of the variables of a function's code."""


class Tracer(TracerBase):
    """Traces modules and functions; a subclass says what becomes one node.

    Parameters
    ----------
    autowrap_modules : tuple of module, default (math,)
        Modules whose functions are nodes where they take proxies.
    autowrap_functions : tuple of callable
        Further ones.
    param_shapes_constant : bool, default False
        Without effect: shapes of parameters always are numbers.

    Attributes
    ----------
    root : Module
        What is traced; an empty module for a function.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrapped = {
            id(each)
            for module in autowrap_modules
            for name, each in vars(module).items()
            if name[:1] != "_" and callable(each)
        }
        self._autowrapped.update(map(id, autowrap_functions))
        self._autowrap_modules = autowrap_modules
        self.param_shapes_constant = param_shapes_constant
        self.root = Module()
        self._names: dict[int, str] = {}
        self._modules: dict[int, str] = {}
        self._constants: list[Any] = []

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module's call is one node.

        Parameters
        ----------
        m : Module
        module_qualified_name : str
            As `layers.0`.
        """
        layers = Sequential.__module__.partition(".container")[0]
        ours = type(m).__module__.startswith(f"{layers}.")
        return ours and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the name of a module below the root.

        Parameters
        ----------
        mod : Module

        Raises
        ------
        NameError
            If it is not below the root.
        """
        if id(mod) not in self._modules:
            raise NameError(
                f"symbolic_trace: a {type(mod).__name__} is called that is not below"
                " the root; assign it to a module that is"
            )
        return self._modules[id(mod)]

    def call_module(
        self,
        m: Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Return the result of a module's call within the trace.

        Parameters
        ----------
        m : Module
        forward : callable
            Runs it.
        args, kwargs
            The arguments.
        """
        name = self.path_of_module(m)
        if not self.is_leaf_module(m, name):
            return forward(*args, **kwargs)
        return self.create_proxy("call_module", name, args, kwargs)

    def constant(self, value: Any) -> Any:
        """Return what a node has for a value that is no proxy.

        Parameters
        ----------
        value : object
            A number, string, dtype or the like; a parameter or buffer of the root, or
            another tensor, which the root then keeps.

        Raises
        ------
        NotImplementedError
            If it is none of these.
        """
        if isinstance(value, Tensor):
            return self.create_node("get_attr", self._name_of(value), (), {})
        if isinstance(value, Module):
            return self.create_node("get_attr", self.path_of_module(value), (), {})
        plain = str | int | float | complex | bytes | type | None | type(...)
        known = type(value).__module__.startswith(Tensor.__module__.split(".")[0])
        if isinstance(value, plain) or known or callable(value):
            return value
        raise NotImplementedError(
            f"symbolic_trace: a {type(value).__name__} is an argument of a node; it may"
            " be a number, a string, a dtype, a tensor, or a sequence of them"
        )

    def _name_of(self, value: Tensor) -> str:
        if id(value) in self._names:
            return self._names[id(value)]
        if isinstance(value, Parameter):
            raise NameError("symbolic_trace: a parameter is not below the root")
        count = 0
        while hasattr(self.root, f"_tensor_constant{count}"):
            count += 1
        name = f"_tensor_constant{count}"
        setattr(self.root, name, value)
        self._names[id(value)] = name
        self._constants.append(value)
        return name

    def trace(
        self,
        root: Module | Callable[..., Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """Return the graph of a module or function.

        Parameters
        ----------
        root : Module or callable
        concrete_args : dict, optional
            Parameters that are no proxies, and what they are; they are taken as that
            whatever the graph is given.
        """
        if isinstance(root, Module):
            self.root = root
            function = inspect.unwrap(type(root).forward)
        else:
            self.root, function = Module(), inspect.unwrap(root)
        self.graph = Graph(tracer_cls=type(self))
        self._modules = {id(each): name for name, each in self.root.named_modules()}
        self._names = dict(self._tensors())
        with ExitStack() as stack:
            stack.enter_context(torch_function.asking(self))
            args = self._arguments(function, root, concrete_args or {})
            stack.enter_context(self._patched(function))
            function = _by_position(function)
            result = function(*args)
            kind = getattr(function, "__annotations__", {}).get("return")
            answer = (self.create_arg(result),)
            self.create_node("output", "output", answer, {}, None, kind)
        return self.graph

    def _tensors(self) -> Iterator[tuple[int, str]]:
        for prefix, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    yield id(value), f"{prefix}.{name}" if prefix else name
        for named in (self.root.named_buffers, self.root.named_parameters):
            for name, value in named():
                yield id(value), name

    def _arguments(
        self, function: Any, root: Any, concrete: dict[str, Any]
    ) -> list[Any]:
        """Return proxies for the parameters of a function."""
        parameters = inspect.signature(function).parameters
        kinds = getattr(function, "__annotations__", {})
        names = sorted(parameters, key=lambda each: _ORDER[parameters[each].kind])
        args: list[Any] = []
        if isinstance(root, Module):
            args.append(root)
            names.remove(next(iter(parameters)))
        for name in names:
            each = parameters[name]
            target = f"{_STARS[each.kind]}{name}" if each.kind in _STARS else name
            given = () if each.default is each.empty else (each.default,)
            kind = None if target != name else kinds.get(name)
            proxy = self.create_proxy("placeholder", target, given, {}, None, kind)
            args.append(concrete.get(name, proxy))
        return args

    @contextmanager
    def _patched(self, function: Any) -> Iterator[None]:
        """Let calls of modules and wrapped functions add nodes within a block."""
        call = Module.__call__
        tracer = self

        @functools.wraps(call)
        def traced(module: Any, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(module, *args, **kwargs)

            return tracer.call_module(module, forward, args, kwargs)

        former: list[tuple[dict[str, Any], str, Any]] = []

        def patch(space: dict[str, Any], name: str) -> None:
            former.append((space, name, space[name]))
            space[name] = _recording(space[name])

        spaces = [vars(each) for each in self._autowrap_modules]
        spaces.append(function.__globals__)
        try:
            Module.__call__ = traced  # type: ignore[method-assign,assignment]  # put back below
            for space in spaces:
                for name, value in [*space.items()]:
                    if id(value) in self._autowrapped:
                        patch(space, name)
            for space, name in _wrapped:
                patch(space, name)
            yield
        finally:
            Module.__call__ = call  # type: ignore[method-assign]  # what it was
            for space, name, value in reversed(former):
                space[name] = value


def _by_position(function: Any) -> Any:
    """Return a function that takes all parameters by position, `*args` as one."""
    code = function.__code__
    stars = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    if not code.co_kwonlyargcount and not code.co_flags & stars:
        return function
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS)
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    plain = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~stars,
    )
    closure = function.__closure__
    return FunctionType(plain, function.__globals__, function.__name__, None, closure)


def _recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose calls with proxies are nodes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        found: list[Proxy] = []

        def note(value: Any) -> Any:
            if isinstance(value, Proxy):
                found.append(value)
            return value

        map_aggregate((args, kwargs), note)
        if not found:
            return function(*args, **kwargs)
        return found[0].tracer.create_proxy("call_function", function, args, kwargs)

    return call


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """Return a module whose code is the trace of a module or function.

    Parameters
    ----------
    root : Module or callable
        Runs once, with proxies as arguments.
    concrete_args : dict, optional
        See `Tracer.trace`.

    Raises
    ------
    TraceError
        If what it does depends on the values of the arguments.

    Examples
    --------
    >>> traced = fw.fx.symbolic_trace(lambda x: fw.relu(x) + 1)
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'relu', 'add', 'output']
    >>> traced(fw.tensor([-1.0, 2.0])).tolist()
    [1.0, 3.0]
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
