"""Trees: tensors nested in tuples, lists and dicts, as a flat list and a structure."""

from __future__ import annotations

from typing import Any, NamedTuple


class Structure(NamedTuple):
    """Structure of a tree: its class, its keys and the structures of its parts.

    Attributes
    ----------
    kind : type or None
        None for a leaf.
    keys : tuple
        Of a dict.
    parts : tuple of Structure
    """

    kind: Any
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]


LEAF = Structure(None, (), ())


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree in order, and its structure."""
    if isinstance(tree, dict):
        keys, parts = tuple(tree), [*tree.values()]
    elif isinstance(tree, tuple | list):
        keys, parts = (), [*tree]
    else:
        return [tree], LEAF
    found = [flatten(part) for part in parts]
    leaves = [leaf for own, _ in found for leaf in own]
    return leaves, Structure(type(tree), keys, tuple([each for _, each in found]))


def unflatten(leaves: list[Any], structure: Structure) -> Any:
    """Return the tree of a structure with these leaves."""
    return _built(iter(leaves), structure)


def _built(leaves: Any, structure: Structure) -> Any:
    if structure.kind is None:
        return next(leaves)
    parts = [_built(leaves, each) for each in structure.parts]
    if issubclass(structure.kind, dict):
        return structure.kind(zip(structure.keys, parts))
    if hasattr(structure.kind, "_fields"):
        return structure.kind(*parts)
    return structure.kind(parts)


# Names of PyTorch's `utils._pytree`.


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Structure]:
    """Return the leaves of a tree in order, and its structure."""
    if is_leaf is not None and is_leaf(tree):
        return [tree], LEAF
    return flatten(tree)


def tree_unflatten(leaves: Any, treespec: Structure) -> Any:
    """Return the tree of a structure with these leaves."""
    return unflatten([*leaves], treespec)


def tree_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree in order."""
    return flatten(tree)[0]


def tree_map(func: Any, tree: Any, *rests: Any) -> Any:
    """Return a tree of what a function makes of the leaves of one or several trees."""
    leaves, structure = flatten(tree)
    others = [flatten(each)[0] for each in rests]
    return unflatten([func(*each) for each in zip(leaves, *others)], structure)


def tree_map_only(kind: Any, func: Any, tree: Any) -> Any:
    """Return a tree in which a function replaced the leaves of a class."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree)


def tree_any(pred: Any, tree: Any) -> bool:
    """Return whether a leaf passes a test."""
    return any(map(pred, flatten(tree)[0]))


def tree_all(pred: Any, tree: Any) -> bool:
    """Return whether every leaf passes a test."""
    return all(map(pred, flatten(tree)[0]))
