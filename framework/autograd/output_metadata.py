"""What the gradients that a node takes for its outputs are like."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from ..eager.base_tensor import TensorCore
from .shown_hooks import MAX_NODES

if TYPE_CHECKING:
    from ..base.device import Device
    from ..base.dtype import DType
    from ..base.shape import Size, TensorSpec
    from .tape import Edge, GradNode


class OutputMetadata(NamedTuple):
    """What the gradient that a node takes for an output is like."""

    shape: Size
    dtype: DType
    device: Device | None
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


def spec_along(node: GradNode, edge: Edge) -> TensorSpec | None:
    """Return what the gradient along an edge of a node, or of nodes behind, is like.

    What is shown in the place of several nodes leads to what the last of them do.
    """
    left = [node]
    for each in itertools.islice(iter(left), MAX_NODES):
        for other, spec in zip(each.edges, each.specs):
            if other is None:
                continue
            if other.target is edge.target and other.output == edge.output:
                return spec
            if not isinstance(other.target, TensorCore):
                left.append(other.target)
    return None
