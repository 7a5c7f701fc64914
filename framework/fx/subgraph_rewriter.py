"""Replacement of every occurrence of one graph in another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .tracer import symbolic_trace


class Match(NamedTuple):
    """Place where a pattern was found.

    Attributes
    ----------
    anchor : Node
        The node of the pattern's result.
    nodes_map : dict of Node
        What stands for each of the pattern's nodes.
    """

    anchor: Node
    nodes_map: dict[Node, Any]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Replace what computes as a pattern does, and compile the module anew.

    Parameters
    ----------
    gm : GraphModule
        Changed in place.
    pattern, replacement : callable or GraphModule
        Are traced; their parameters stand for the same values, in their order.

    Returns
    -------
    list of Match
        The occurrences, which do not overlap.
    """
    wanted, given = _graph_of(pattern), _graph_of(replacement)
    parameters = wanted.find_nodes(op="placeholder")
    matches: list[Match] = []
    taken: set[Node] = set()
    for node in [*gm.graph.nodes]:
        found = _match(wanted, node)
        if found is None:
            continue
        inside = {
            found[each] for each in found if each.op not in ("placeholder", "output")
        }
        if inside & taken:
            continue
        taken |= inside
        matches.append(Match(node, found))
    replaced: dict[Node, Any] = {}
    for match in matches:
        values: dict[Node, Any] = {}
        for own, theirs in zip(given.find_nodes(op="placeholder"), parameters):
            value = match.nodes_map[theirs]
            # An earlier replacement may have made it.
            while isinstance(value, Node) and value in replaced:
                value = replaced[value]
            values[own] = value
        with gm.graph.inserting_before(_first_user(match.anchor)):
            result = gm.graph.graph_copy(given, values)
        match.anchor.replace_all_uses_with(result)
        replaced[match.anchor] = result
        for node in reversed([*match.nodes_map.values()]):
            inner = isinstance(node, Node) and node in taken
            if inner and not node._erased and not node.users:
                gm.graph.erase_node(node)
    gm.recompile()
    return matches


def _first_user(node: Node) -> Node:
    """Return the first node that takes a node's result; the next one without any."""
    user = node.next
    while node.users and user not in node.users:
        user = user.next
    return user


def _graph_of(function: Callable[..., Any] | GraphModule) -> Graph:
    if isinstance(function, GraphModule):
        return function.graph
    return symbolic_trace(function).graph


def _match(pattern: Graph, anchor: Node) -> dict[Node, Any] | None:
    """Return what stands for the pattern's nodes where its result is a node."""
    result = pattern.output_node().args[0]
    if not isinstance(result, Node):
        raise ValueError(
            f"replace_pattern: the pattern returns {result!r}; it must return one value"
        )
    found: dict[Node, Any] = {}
    if result.op == "placeholder" or not _fits(result, anchor, found):
        return None
    inside = {found[each] for each in found if each.op != "placeholder"}
    for node in inside:
        if node is not anchor and any(user not in inside for user in node.users):
            return None
    # In the pattern's order, whose reverse erases users first.
    return {each: found[each] for each in pattern.nodes if each in found}


def _fits(pattern: Node, node: Any, found: dict[Node, Any]) -> bool:
    if pattern in found:
        return found[pattern] is node or (
            not isinstance(node, Node) and found[pattern] == node
        )
    if pattern.op == "placeholder":
        found[pattern] = node
        return True
    if not isinstance(node, Node):
        return False
    if (pattern.op, pattern.target) != (node.op, node.target):
        return False
    found[pattern] = node
    return _same(pattern.args, node.args, found) and _same(
        pattern.kwargs, node.kwargs, found
    )


def _same(pattern: Any, value: Any, found: dict[Node, Any]) -> bool:
    if isinstance(pattern, Node):
        return _fits(pattern, value, found)
    if isinstance(pattern, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(pattern) == len(value)
            and all(_same(one, other, found) for one, other in zip(pattern, value))
        )
    if isinstance(pattern, dict):
        return (
            isinstance(value, dict)
            and pattern.keys() == value.keys()
            and all(_same(pattern[key], value[key], found) for key in pattern)
        )
    if isinstance(value, Node):
        return False
    return type(pattern) is type(value) and bool(pattern == value)
