"""Tokens of PyTorch's keywords `memory_format` and `layout`.

Tensors made by ops are dense and in row-major order: other memory formats are accepted
and have no effect, other layouts do not exist.
"""

from __future__ import annotations

from .shape import Layout


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
    """Layout of a tensor; all are `strided`, which alone can be asked for.

    That equals `Tensor.layout`, which tells the strides themselves.

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
        return self is other or (self is strided and isinstance(other, Layout))

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> str:
        return self.name


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
