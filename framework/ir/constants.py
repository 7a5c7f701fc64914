"""Lazy values that repeat one number, by the nodes that make them; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lazy_graph import Value


def is_one(value: Value) -> bool:
    """Return whether a lazy value is the constant 1, the seed of `backward`.

    The seed may be converted: losses of 16 bits are computed in float32.
    """
    node = value.node
    while node is not None:
        name = node.signature.op.name
        if name == "cast":
            node = node.values[0].node
        else:
            return name == "fill_like" and node.numbers == (1,)
    return False
