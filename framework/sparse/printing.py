"""Sparse tensors as text, as PyTorch prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import bool_, default_dtype, int64
from ..tensor.printing import Options, body_of

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor
    from ..tensor.wrapper import WrapperTensor


def text_of(x: WrapperTensor, parts: Mapping[str, Tensor], stored: int) -> str:
    """Return a sparse tensor as PyTorch prints it: its parts, then what else it has.

    Parameters
    ----------
    x : WrapperTensor
    parts : mapping of str to Tensor
    stored : int
        How many elements are stored.
    """
    prefix = "tensor("
    notes = [f"device='{x.device}'"] if x.is_gpu else []
    notes += [f"size={tuple(x.shape)}", f"nnz={stored}"]
    floats = default_dtype()
    if x.dtype not in (floats, floats.to_complex(), int64, bool_):
        notes.append(f"dtype={x.dtype}")
    notes.append(f"layout={x.kind}")
    if x.grad_node is not None:
        notes.append(f"grad_fn=<{x.grad_node.name()}>")
    elif x.requires_grad:
        notes.append("requires_grad=True")
    indent = " " * len(prefix)
    between = f",\n{indent}"
    text = prefix + between.join(
        f"{name}={_part(part, len(prefix) + len(name) + 1)}"
        for name, part in parts.items()
    )
    if len(parts) == 2:
        text += between + notes.pop(0)
    last = len(text) - text.rfind("\n") + 1
    for note in notes:
        if last + len(note) + 2 > Options.linewidth:
            text += between + note
            last = len(prefix) + len(note)
        else:
            text += ", " + note
            last += len(note) + 2
    return text + ")"


def _part(x: Tensor, indent: int) -> str:
    """Return a part as text that begins after `indent` characters."""
    prefix = "tensor("
    size = "" if x.numel() else f", size={tuple(x.shape)}"
    return f"{prefix}{body_of(x, indent + len(prefix))}{size})"
