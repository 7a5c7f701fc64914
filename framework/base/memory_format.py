"""Tokens of PyTorch's keywords `memory_format` and `layout`.

Tensors made by ops are dense and in row-major order, those of element-wise ops in the
memory order of operands that share one: other memory formats are accepted and have no
effect. Other layouts are those of sparse and nested tensors.
"""

from __future__ import annotations

from .shape import Layout, Shape, contiguous_strides


class memory_format:  # noqa: N801 - PyTorch's name
    """Memory format of a tensor: accepted, without an effect.

    Parameters
    ----------
    name : str
        PyTorch's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout:  # noqa: N801 - PyTorch's name
    """Layout of a tensor: `strided` of dense ones.

    It equals `Tensor.layout`, which tells sizes and strides as well.

    Parameters
    ----------
    name : str
        PyTorch's name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OpaqueLayout):
            return self is other.kind
        return self is other or (self is strided and isinstance(other, Layout))

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> str:
        return self.name


class OpaqueLayout(Layout):
    """Layout of a tensor that is made of other tensors; it equals its kind.

    Each is another object, so it is in the key of no cached call.

    Attributes
    ----------
    kind : layout
    """

    kind: layout

    @staticmethod
    def of(kind: layout, shape: Shape) -> OpaqueLayout:
        """Return the layout of a tensor of a kind and shape."""
        made = OpaqueLayout(shape, contiguous_strides(shape))
        made.kind = kind
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, OpaqueLayout):
            return self.kind is other.kind and self.shape == other.shape
        return self.kind is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.kind)

    def __repr__(self) -> str:
        return repr(self.kind)


contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")


def check_layout(where: str, given: object) -> None:
    """Raise `TypeError` for a layout that does not exist here; None is `strided`."""
    if given is not None and given is not strided:
        raise TypeError(f"{where}: layout is {given!r}; it must be strided")


def check_memory_format(where: str, given: object) -> None:
    """Raise `TypeError` for what is no memory format; None is accepted."""
    if given is not None and not isinstance(given, memory_format):
        raise TypeError(
            f"{where}: memory_format is {given!r}; it must be a memory format, as"
            " contiguous_format"
        )
