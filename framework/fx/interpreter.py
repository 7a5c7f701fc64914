"""Interpreters: a graph is run, or copied, node by node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..base import torch_function
from ..nn.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_arg
from .proxy import Proxy
from .tracer import Tracer


class Interpreter:
    """Runs a graph node by node; a subclass overrides what a kind of node does.

    Parameters
    ----------
    module : Module
        Has what the nodes name.
    garbage_collect_values : bool, default True
        Drop a result after its last use.
    graph : Graph, optional
        What runs, instead of the module's own graph.

    Examples
    --------
    >>> module = fw.fx.symbolic_trace(lambda x: fw.exp(x) * 2)
    >>> fw.fx.Interpreter(module).run(fw.zeros(2)).tolist()
    [2.0, 2.0]
    """

    def __init__(
        self,
        module: Module,
        garbage_collect_values: bool = True,
        graph: Graph | None = None,
    ) -> None:
        self.module = module
        given: Any = module
        self.graph: Graph = given.graph if graph is None else graph
        self.garbage_collect_values = garbage_collect_values
        self.env: dict[Node, Any] = {}
        self._last: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(self.graph.nodes):
            for node in user.all_input_nodes:
                if node not in seen:
                    seen.add(node)
                    self._last.setdefault(user, []).append(node)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Return the result of the graph.

        Parameters
        ----------
        *args : object
            Values of the placeholders in their order.
        initial_env : dict of Node, optional
            Results of nodes that do not run.
        enable_io_processing : bool, default True
            Without effect.
        """
        self.env = dict(initial_env or {})
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for dead in self._last.get(node, ()):
                    del self.env[dead]
        return None

    def run_node(self, n: Node) -> Any:
        """Return the result of one node.

        Parameters
        ----------
        n : Node
        """
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(
        self, n: Node
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node, with results in the place of nodes.

        Parameters
        ----------
        n : Node
        """
        args = self.map_nodes_to_values(n.args, n)
        return args, self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Return a structure with results in the place of nodes.

        Parameters
        ----------
        args : object
        n : Node
            The node that takes it.
        """

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"run: {n} takes {node}, which has not run; see lint"
                )
            return self.env[node]

        return map_arg(args, value)

    def fetch_attr(self, target: str) -> Any:
        """Return an attribute of the module by its full name.

        Parameters
        ----------
        target : str
        """
        found: Any = self.module
        for name in target.split("."):
            found = getattr(found, name)
        return found

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return the next value of a placeholder, or its default.

        Parameters
        ----------
        target : str
        args, kwargs
            The node's.
        """
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"run: there is no value for {target}; give one for each placeholder"
            ) from None

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return an attribute.

        Parameters
        ----------
        target : str
        args, kwargs
            The node's.
        """
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return the result of a function.

        Parameters
        ----------
        target : callable
        args, kwargs
            Its arguments.
        """
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return the result of a method.

        Parameters
        ----------
        target : str
        args, kwargs
            The object, and the method's arguments.
        """
        owner, *rest = args
        return getattr(owner, target)(*rest, **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return the result of a module.

        Parameters
        ----------
        target : str
        args, kwargs
            Its arguments.
        """
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return the result of the graph.

        Parameters
        ----------
        target : str
        args, kwargs
            The result.
        """
        return args[0]


class Transformer(Interpreter):
    """Makes a new graph by running one on proxies; a subclass changes kinds of nodes.

    Parameters
    ----------
    module : GraphModule
    """

    module: GraphModule

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = Tracer()
        self.tracer.graph = self.new_graph
        self.tracer.root = module

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return a placeholder of the new graph; see `Interpreter.placeholder`."""
        return Proxy(
            self.new_graph.create_node("placeholder", target, args), self.tracer
        )

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return an attribute of the new graph; see `Interpreter.get_attr`."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return a call of the new graph; see `Interpreter.call_module`."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Return a call of the new graph; see `Interpreter.call_function`."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return a module with the new graph."""
        with torch_function.asking(self):
            result = self.run()
            self.new_graph.output(self.tracer.create_arg(result))
        return GraphModule(self.module, self.new_graph, type(self.module).__name__)
