"""Graphs: nodes in the order of their execution, and the Python code of them."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .code_writer import CodeWriter, PythonCode
from .node import Node, full_name, map_arg, nodes_from

_NAME = re.compile(r"^(.*?)(?:_(\d+))?$", re.DOTALL)
_TAKEN = frozenset(
    [
        *keyword.kwlist,
        *vars(builtins),
        *("inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"),
    ]
)


class Namespace:
    """Names of variables that have been used."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str) -> str:
        """Return a new name like one, with a number where that is taken."""
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = _NAME.match(candidate)
        assert match is not None  # it takes every text
        base, number = match.groups()
        if number is None or candidate in self._used:
            count = self._counts.get(base, 0)
            if candidate in _TAKEN:
                count += 1
                candidate = f"{base}_{count}"
        else:
            count = int(number)
        while candidate in self._used:
            count += 1
            candidate = f"{base}_{count}"
        self._used.add(candidate)
        self._counts[base] = count
        return candidate


class NodeList:
    """The nodes of a graph in their order; `reversed` goes back."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph = graph
        self._backwards = backwards

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        if not self._backwards:
            yield from nodes_from(self._graph._root)
            return
        node = self._graph._root._prev
        while node is not self._graph._root:
            if not node._erased:
                yield node
            node = node._prev

    def __reversed__(self) -> NodeList:
        return NodeList(self._graph, not self._backwards)


class Graph:
    """Nodes in the order of their execution.

    Parameters
    ----------
    owning_module : GraphModule, optional
        The module whose code it is; set by `GraphModule`.
    tracer_cls : type, optional
        The class that traced it.

    Examples
    --------
    >>> graph = fw.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> _ = graph.output(graph.call_function(fw.relu, (x,)))
    >>> [node.name for node in graph.nodes]
    ['x', 'relu', 'output']
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None) -> None:
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._namespace = Namespace()
        self._root = Node(self, "", "get_attr", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend

    @property
    def nodes(self) -> NodeList:
        """The nodes in their order."""
        return NodeList(self)

    def output_node(self) -> Node:
        """Return the node of the result, which is the last one."""
        return next(iter(reversed(self.nodes)))

    def find_nodes(
        self, *, op: str, target: Any = None, sort: bool = True
    ) -> list[Node]:
        """Return the nodes of a kind, in their order.

        Parameters
        ----------
        op : str
        target : str or callable, optional
            Only those with this target.
        sort : bool, default True
            Without effect: they always are in order.
        """
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node where the graph inserts, at its end by default.

        Parameters
        ----------
        op, target, args, kwargs
            See `Node`.
        name : str, optional
            What its name is to be like.
        type_expr : object
            The annotation of its result.

        Raises
        ------
        ValueError
            If an argument is a node of another graph.
        """
        args, kwargs = args or (), kwargs or {}
        self._check_inputs(args, kwargs)
        unique = self._namespace.create_name(name or self._target_to_str(target))
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        self._insert(node)
        return node

    def _check_inputs(self, args: Any, kwargs: Any) -> None:
        def check(node: Node) -> Node:
            if node.graph is not self:
                raise ValueError(
                    f"create_node: the argument {node} is in another graph; copy it"
                    " with node_copy or graph_copy"
                )
            return node

        map_arg((args, kwargs), check)

    def _target_to_str(self, target: Any) -> str:
        """Return what a node's name is made of."""
        if callable(target):
            target = getattr(target, "__name__", type(target).__name__)
        elif target[:2] == target[-2:] == "__":
            target = target[2:-2]
        return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", target).lower()

    def placeholder(
        self,
        name: str,
        type_expr: Any = None,
        default_value: Any = inspect.Parameter.empty,
    ) -> Node:
        """Add a parameter of the graph.

        Parameters
        ----------
        name : str
            With one or two stars for all further arguments.
        type_expr : object
            Its annotation.
        default_value : object
            What it is where it is not given.
        """
        empty = default_value is inspect.Parameter.empty
        args = () if empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add a read of an attribute of the module.

        Parameters
        ----------
        qualified_name : str
            As `weight`, or `layer.weight`.
        type_expr : object
        """
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of a module below the owning one.

        Parameters
        ----------
        module_name : str
        args, kwargs, type_expr
            See `create_node`.
        """
        return self.create_node(
            "call_module", module_name, args, kwargs, None, type_expr
        )

    def call_method(
        self,
        method_name: str,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a call of a method of the first argument.

        Parameters
        ----------
        method_name : str
        args, kwargs, type_expr
            See `create_node`.
        """
        return self.create_node(
            "call_method", method_name, args, kwargs, None, type_expr
        )

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Add a call of a function.

        Parameters
        ----------
        the_function : callable
        args, kwargs, type_expr, name
            See `create_node`.
        """
        return self.create_node(
            "call_function", the_function, args, kwargs, name, type_expr
        )

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """Add the result of the graph.

        Parameters
        ----------
        result : object
            A node, or a structure of nodes.
        type_expr : object
        """
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Any] = lambda node: node
    ) -> Node:
        """Add a node like one, which may be of another graph.

        Parameters
        ----------
        node : Node
        arg_transform : callable
            Gives the node of this graph for each that it takes.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        copied = self.create_node(
            node.op, node.target, args, kwargs, node.name, node.type
        )
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False
    ) -> Any:
        """Add the nodes of another graph, without its output.

        Parameters
        ----------
        g : Graph
        val_map : dict of Node
            Nodes of this graph by those of the other one; what is in it is not copied,
            what is copied is added.
        return_output_node : bool, default False
            Return the other graph's output node too.

        Returns
        -------
        object
            The other graph's result, as values of this one.
        """
        for node in g.nodes:
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            if node not in val_map:
                val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls)
        found = copied.graph_copy(self, {}, return_output_node=True)
        if found is not None:
            result, node = found
            copied.output(result, node.type).meta = dict(node.meta)
        return copied

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node whose result nobody takes.

        Parameters
        ----------
        to_erase : Node

        Raises
        ------
        RuntimeError
            If other nodes take its result, or it is of another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"erase_node: {to_erase} has {len(to_erase.users)} users,"
                f" {', '.join(map(str, to_erase.users))}; replace its uses first"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"erase_node: {to_erase} is in another graph")
        to_erase._set((), {})
        to_erase._unlink()
        to_erase._erased = True

    @contextmanager
    def _inserting(self, insert: Callable[[Node], None]) -> Iterator[None]:
        former, self._insert = self._insert, insert
        try:
            yield
        finally:
            self._insert = former

    def inserting_before(self, n: Node | None = None) -> Any:
        """Return a block in which nodes are added before one; None means the first.

        Parameters
        ----------
        n : Node, optional
        """
        if n is None:
            return self.inserting_after(self._root)
        return self._inserting(n.prepend)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Return a block in which nodes are added after one; None means the last.

        Parameters
        ----------
        n : Node, optional
        """
        if n is None:
            return self.inserting_before(self._root)
        last = [n]

        def insert(node: Node) -> None:
            last[0].append(node)
            last[0] = node

        return self._inserting(insert)

    def eliminate_dead_code(
        self, is_impure_node: Callable[[Node], bool] | None = None
    ) -> bool:
        """Remove nodes whose results nobody takes, and that change nothing.

        Parameters
        ----------
        is_impure_node : callable, optional
            Whether a node is to stay all the same; `Node.is_impure` by default.

        Returns
        -------
        bool
            Whether any was removed.
        """
        stays = is_impure_node or Node.is_impure
        removed = False
        for node in [*reversed(self.nodes)]:
            if not node.users and not stays(node):
                self.erase_node(node)
                removed = True
        return removed

    def lint(self) -> None:
        """Check that the graph can run.

        Raises
        ------
        RuntimeError
            If a node takes what is computed later or elsewhere, a name comes twice, or
            the module lacks an attribute.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            for given in node.all_input_nodes:
                if given.graph is not self:
                    raise RuntimeError(f"lint: {node} takes {given} of another graph")
                if given not in seen:
                    raise RuntimeError(
                        f"lint: {node} takes {given}, which comes after it or was"
                        " erased; move one of them"
                    )
            if node.name in names:
                raise RuntimeError(f"lint: two nodes have the name {node.name}")
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None:
                _check_target(self.owning_module, node)

    def python_code(
        self, root_module: str = "self", verbose: bool = False
    ) -> PythonCode:
        """Return the graph as the function `forward`.

        Parameters
        ----------
        root_module : str, default "self"
            The name of the module in it.
        verbose : bool, default False
            Without effect.
        """
        return CodeWriter(self.nodes, root_module).code()

    def print_tabular(self) -> None:
        """Print a line for each node."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [
            (
                node.op,
                node.name,
                full_name(node.target),
                str(node.args),
                str(node.kwargs),
            )
            for node in self.nodes
        ]
        widths = [max(map(len, column)) for column in zip(*rows)]
        for row in rows:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths)))

    def __str__(self) -> str:
        lines = [f"    {node.format_node()}" for node in self.nodes]
        return "\n".join(["graph():", *lines])


def _check_target(module: Any, node: Node) -> None:
    if node.op not in ("get_attr", "call_module"):
        return
    found = module
    for name in node.target.split("."):
        if not hasattr(found, name):
            raise RuntimeError(
                f"lint: {node} is {node.op} of {node.target!r}, which the module has"
                " not; add it with add_submodule or register_parameter"
            )
        found = getattr(found, name)
