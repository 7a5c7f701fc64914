"""Proxies: values of a trace that add a node to its graph for what is done to them."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Iterator
from typing import Any

from .. import interception
from ..base import torch_function
from ..overrides import is_tensor_method_or_property
from ..tensor.tensor import Tensor
from .code_writer import BINARY, FORMS
from .graph import Graph
from .node import Node, map_aggregate


class TraceError(ValueError):
    """A trace cannot go on: what it does depends on the values."""


class TracerBase:
    """What makes nodes of calls, in a graph.

    Attributes
    ----------
    graph : Graph
    """

    graph: Graph

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node; see `Graph.create_node`.

        Parameters
        ----------
        kind, target, args, kwargs, name, type_expr
            See `Graph.create_node`.
        """
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return the proxy of a node's result.

        Parameters
        ----------
        node : Node
        """
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Proxy:
        """Add a node whose arguments may be proxies; return the proxy of its result.

        Parameters
        ----------
        kind, target, args, kwargs, name, type_expr
            See `Graph.create_node`.
        """
        given, options = self.create_arg(args), self.create_arg(kwargs)
        return self.proxy(
            self.create_node(kind, target, given, options, name, type_expr)
        )

    def create_arg(self, a: Any) -> Any:
        """Return an argument as a node has it: nodes for proxies.

        Parameters
        ----------
        a : object
        """

        def convert(value: Any) -> Any:
            if isinstance(value, Proxy):
                return value.node
            return self.constant(value)

        return map_aggregate(a, convert)

    def constant(self, value: Any) -> Any:
        """Return what a node has for a value that is no proxy.

        Parameters
        ----------
        value : object
        """
        return value

    def to_bool(self, obj: Proxy) -> bool:
        """Raise: a branch depends on a value.

        Parameters
        ----------
        obj : Proxy
        """
        raise TraceError(
            f"symbolic_trace: a branch depends on the value of {obj.node}; choose with"
            " where(), or leave the module that branches untraced by is_leaf_module"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Return the parts of a proxy where they are unpacked; raise elsewhere.

        Parameters
        ----------
        obj : Proxy
        """
        frame = sys._getframe(2)
        for step in dis.get_instructions(frame.f_code):
            if step.offset == frame.f_lasti and step.opname == "UNPACK_SEQUENCE":
                whole: Any = obj
                return iter([whole[at] for at in range(step.argval)])
        raise TraceError(
            f"symbolic_trace: the proxy {obj.node} is iterated over, and the number of"
            " its parts is not known; unpack it, or use its indices"
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a proxy, as another one.

        Parameters
        ----------
        obj : Proxy
        """
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph for what is done to proxies of its nodes.

    Parameters
    ----------
    graph : Graph
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        torch_function.watch(self)


class Proxy:
    """Value of a trace; operators, methods and functions on it add nodes.

    Parameters
    ----------
    node : Node
        Whose result it stands for.
    tracer : TracerBase, optional
        What adds the nodes; by default they go where the node's graph inserts.
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name[:2] == "__":
            raise AttributeError(f"Proxy: it has no attribute {name!r}")
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Add a call of the value."""
        return self.tracer.create_proxy(
            "call_method", "__call__", (self, *args), kwargs
        )

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __len__(self) -> int:
        raise RuntimeError(
            f"symbolic_trace: len() of the proxy {self.node} is asked for, which must"
            " be a number; use its shape, or fx.wrap('len')"
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            f"symbolic_trace: elements of the proxy {self.node} are set; use where(),"
            " or index_put"
        )

    def keys(self) -> Any:
        """Return its keys, as another proxy."""
        return self.tracer.keys(self)

    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Add a node for a call of a public function.

        Parameters
        ----------
        func, types, args, kwargs
            See `Tensor.__torch_function__`.
        """
        kwargs = kwargs or {}
        found: dict[TracerBase, None] = {}

        def note(value: Any) -> Any:
            if isinstance(value, Proxy):
                found[value.tracer] = None
            return value

        map_aggregate((tuple(args), kwargs), note)
        if len(found) > 1:
            raise TraceError(
                f"{func.__name__}: the arguments are proxies of {len(found)} traces;"
                " they must be of one"
            )
        tracer = next(iter(found))
        name = func.__name__
        if is_tensor_method_or_property(func) and not is_function(func):
            if name in ("__get__", "__set__"):
                raise TraceError("symbolic_trace: a property of Tensor takes a proxy")
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", func, args, kwargs)


def is_function(func: Any) -> bool:
    """Return whether something is a public function, and not a method alone."""
    name = getattr(func, "__name__", "")
    from_operators = getattr(Tensor, name, None) is func and name[:2] == "__"
    return not from_operators and func in _functions()


def _functions() -> set[Any]:
    targets = interception.table()
    return {each.func for each in targets if not each.name.startswith("torch.Tensor.")}


class Attribute(Proxy):
    """An attribute of a proxy: it is read, or called as a method.

    Parameters
    ----------
    root : Proxy
    attr : str
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]  # made when it is asked for
        """The node that reads it, which a call does not need."""
        if self._node is None:
            args = self.root, self.attr
            self._node = self.tracer.create_proxy(
                "call_function", getattr, args, {}
            ).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        """Add a call of the method."""
        return self.tracer.create_proxy(
            "call_method", self.attr, (self.root, *args), kwargs
        )


def _add_operators() -> None:
    """Give proxies the operators that graphs have."""
    for name in FORMS:
        target = getattr(operator, name)

        def apply(*args: Any, _target: Any = target) -> Any:
            return args[0].tracer.create_proxy("call_function", _target, args, {})

        setattr(Proxy, f"__{name.strip('_')}__", apply)
    for name in BINARY:
        target = getattr(operator, name)

        def swapped(self: Any, other: Any, _target: Any = target) -> Any:
            return self.tracer.create_proxy("call_function", _target, (other, self), {})

        setattr(Proxy, f"__r{name.strip('_')}__", swapped)


_add_operators()
