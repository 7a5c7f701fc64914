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
