"""Nodes of a graph: what is called, with which arguments, and who uses the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .. import overrides

if TYPE_CHECKING:
    from .graph import Graph

OPS = ("placeholder", "get_attr", "call_function", "call_module", "call_method")

Transform = Callable[[Any], Any]


def map_aggregate(a: Any, fn: Transform) -> Any:
    """Return a structure of the same form, with another value for each leaf.

    Parameters
    ----------
    a : object
        A value, or tuples, lists, dictionaries and slices of them.
    fn : callable
        Makes a leaf of a leaf.
    """
    if isinstance(a, tuple):
        found = [map_aggregate(each, fn) for each in a]
        return type(a)(*found) if hasattr(a, "_fields") else tuple(found)
    if isinstance(a, list):
        return [map_aggregate(each, fn) for each in a]
    if isinstance(a, dict):
        return {key: map_aggregate(each, fn) for key, each in a.items()}
    if isinstance(a, slice):
        parts = [map_aggregate(each, fn) for each in (a.start, a.stop, a.step)]
        return slice(*parts)
    return fn(a)


def map_arg(a: Any, fn: Transform) -> Any:
    """Return a structure of the same form, with another value for each node.

    Parameters
    ----------
    a : object
        As `map_aggregate` takes it.
    fn : callable
        Makes a value of a node.
    """
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)


class Node:
    """One step of a graph; made by the graph's methods.

    Attributes
    ----------
    op : str
        "placeholder", "get_attr", "call_function", "call_module", "call_method" or
        "output".
    target : str or callable
        The function, or the name of the method, module, attribute or parameter.
    args, kwargs : tuple, dict
        The arguments; nodes stand for their results. May be set.
    name : str
        The variable in generated code; unique in the graph.
    users : dict of Node
        The nodes that take its result.
    type : object
        The annotation of the result, or None.
    meta : dict
        What programs note on it.
    graph : Graph
        The graph that it is in.
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in (*OPS, "output"):
            raise ValueError(f"Node: op is {op!r}; it must be one of {', '.join(OPS)}")
        if callable(target) is not (op == "call_function"):
            wanted = "a function" if op == "call_function" else "a string"
            raise ValueError(
                f"Node: the target of {op} is {target!r}; it must be {wanted}"
            )
        self.graph = graph
        self.name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._set(tuple(args), dict(kwargs))

    def __repr__(self) -> str:
        return self.name

    @property
    def next(self) -> Node:
        """The node after it; of the last one, the head of the list."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it; of the first one, the head of the list."""
        return self._prev

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments by position."""
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Any]) -> None:
        self._set(self._args, dict(kwargs))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once, in their order."""
        found: dict[Node, None] = {}
        map_arg((self._args, self._kwargs), found.setdefault)
        return [*found]

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for node in self.all_input_nodes:
            node.users.pop(self, None)
        self._args = map_aggregate(args, lambda each: each)
        self._kwargs = map_aggregate(kwargs, lambda each: each)
        for node in self.all_input_nodes:
            node.users[self] = None

    def prepend(self, x: Node) -> None:
        """Move a node of the graph to the place before this one.

        Parameters
        ----------
        x : Node
        """
        if x.graph is not self.graph:
            raise ValueError(f"prepend: {x} is in another graph than {self}")
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x

    def append(self, x: Node) -> None:
        """Move a node of the graph to the place after this one.

        Parameters
        ----------
        x : Node
        """
        self._next.prepend(x)

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def update_arg(self, idx: int, arg: Any) -> None:
        """Set one argument by its position.

        Parameters
        ----------
        idx : int
        arg : object
        """
        args = [*self._args]
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Insert an argument before a position.

        Parameters
        ----------
        idx : int
        arg : object
        """
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Set one argument by its name.

        Parameters
        ----------
        key : str
        arg : object
        """
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Take the result of another node wherever it takes that of one.

        Parameters
        ----------
        old_input, new_input : Node
        """

        def chosen(node: Node) -> Node:
            return new_input if node is old_input else node

        self._set(map_arg(self._args, chosen), map_arg(self._kwargs, chosen))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let the users of its result take that of another node.

        Parameters
        ----------
        replace_with : Node
        delete_user_cb : callable
            Whether a user is to be changed.
        propagate_meta : bool, default False
            Give the other node, which must have none, the `meta` of this one.

        Returns
        -------
        list of Node
            The users that were changed.
        """
        if propagate_meta:
            if replace_with.meta:
                raise ValueError(
                    f"replace_all_uses_with: {replace_with} has meta of its own; leave"
                    " propagate_meta out"
                )
            replace_with.meta = dict(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def is_impure(self) -> bool:
        """Return whether it is to stay though nobody uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        name = getattr(self.target, "__name__", self.target)
        if self.op == "call_module":
            return False
        is_change = name.endswith("_") and not name.endswith("__")
        return is_change or name in ("_assert", "setitem", "manual_seed", "print")

    def format_node(self) -> str:
        """Return the node as a line of the graph's text."""
        kind = f" {type_text(self.type)}" if self.type is not None else ""
        if self.op == "output":
            return f"return {self._args[0]}"
        head = f"%{self.name} :{kind} [num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            default = f"(default={self._args[0]})" if self._args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self.target}]"
        args, kwargs = _text_of(self._args), _text_of(self._kwargs)
        target = full_name(self.target)
        return f"{head}[target={target}](args = {args}, kwargs = {kwargs})"


def full_name(target: Any) -> str:
    """Return a target as the graph's text has it."""
    if isinstance(target, str):
        return target
    known = overrides.resolve_name(target)
    if known is not None:
        return known
    module = getattr(target, "__module__", None) or "builtins"
    return f"{module.replace('_operator', 'operator')}.{target.__name__}"


def type_text(kind: Any) -> str:
    """Return an annotation as a graph's text has it."""
    if isinstance(kind, type):
        inside = kind.__module__ in ("builtins", "__main__")
        return kind.__name__ if inside else f"{kind.__module__}.{kind.__qualname__}"
    return repr(kind) if isinstance(kind, str) else str(kind)


def _text_of(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text_of, value))}]"
    if isinstance(value, tuple):
        end = "," if len(value) == 1 else ""
        return f"({', '.join(map(_text_of, value))}{end})"
    if isinstance(value, dict):
        pairs = (f"{key}: {_text_of(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    return str(value)


def nodes_from(head: Node) -> Iterator[Node]:
    """Yield the nodes of a list, also while they are erased or others are added."""
    node = head._next
    while node is not head:
        if not node._erased:
            yield node
        node = node._next
