"""Tensors as text, as PyTorch prints them; reads only the elements that it prints."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.dtype import bool_, default_dtype, int64
from ..base.shape import Layout

if TYPE_CHECKING:
    from .tensor import Tensor


class Options:
    """Print options; see `set_printoptions`."""

    precision = 4
    threshold: float = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode: bool | None = None


_PROFILES: dict[str, tuple[int, float, int]] = {
    "default": (4, 1000, 3),
    "short": (2, 1000, 2),
    "full": (4, math.inf, 3),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; None leaves an option as it is.

    Parameters
    ----------
    precision : int
        Digits after the point; 4 at first.
    threshold : int
        Elements beyond which a tensor is summarised; 1000 at first.
    edgeitems : int
        Elements at each end of each dimension of a summary; 3 at first.
    linewidth : int
        Characters in a line; 80 at first.
    profile : str
        "default", "short" or "full" sets all but `sci_mode`.
    sci_mode : bool
        Whether floats are in scientific notation; None decides by their range.

    Raises
    ------
    ValueError
        If there is no such profile.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(
                f"set_printoptions: profile is {profile!r}; it must be one of"
                f" {', '.join(_PROFILES)}"
            )
        Options.precision, Options.threshold, Options.edgeitems = _PROFILES[profile]
        Options.linewidth = 80
    if precision is not None:
        Options.precision = precision
    if threshold is not None:
        Options.threshold = threshold
    if edgeitems is not None:
        Options.edgeitems = edgeitems
    if linewidth is not None:
        Options.linewidth = linewidth
    Options.sci_mode = sci_mode


def text_of(x: Tensor) -> str:
    """Return a tensor as PyTorch prints it."""
    prefix = "tensor("
    notes = [] if x.is_cpu else [f"device='{x.device}'"]
    if x.is_meta:
        notes += [f"size={tuple(x.shape)}"]
        plain = x.dtype is default_dtype()
        body = "..."
    elif not x.numel():
        notes += [f"size={tuple(x.shape)}"] if x.ndim != 1 else []
        plain = x.dtype is default_dtype()
        body = "[]"
    else:
        floats = default_dtype()
        plain = x.dtype in (floats, floats.to_complex(), int64, bool_)
        body = body_of(x, len(prefix))
    notes += [] if plain else [f"dtype={x.dtype}"]
    if x.grad_node is not None:
        notes.append(f"grad_fn=<{x.grad_node.name()}>")
    elif x.requires_grad:
        notes.append("requires_grad=True")
    text = prefix + body
    last = len(text) - text.rfind("\n") + 1
    for note in notes:
        # A note goes to a line of its own where it does not fit any more.
        if last + len(note) + 2 > Options.linewidth:
            text += ",\n" + " " * len(prefix) + note
            last = len(prefix) + len(note)
        else:
            text += ", " + note
            last += len(note) + 2
    return text + ")"


def body_of(x: Tensor, indent: int) -> str:
    """Return nested lists of elements, whose lines begin after `indent` characters."""
    if not x.numel():
        return "[]"
    shown = _shown(x.detach())
    return _lines(shown, x.layout.shape, _Format(shown), indent)


def html_of(x: Tensor) -> str:
    """Return a tensor as HTML: its kind, and a table of the elements that are printed.

    More than two dimensions are shown as text.
    """
    import html  # its table of entities is large, and few tensors are shown as HTML

    notes = [f"shape {tuple(x.shape)}", x.dtype.name, str(x.device)]
    if x.requires_grad:
        notes.append("requires_grad")
    caption = html.escape(f"{type(x).__name__}: {', '.join(notes)}")
    if x.ndim > 2 or not x.numel():
        return f"<div>{caption}</div><pre>{html.escape(text_of(x))}</pre>"
    shown = _shown(x.detach())
    form = _Format(shown)
    shape = (1,) * (2 - x.ndim) + x.layout.shape
    rows = [
        _with_gap([html.escape(form.text(each)) for each in row], shape[1])
        for row in shown.reshape((-1, shown.shape[-1] if x.ndim else 1))
    ]
    if len(rows) < shape[0]:
        rows.insert(Options.edgeitems, ["&#8942;"] * len(rows[0]))
    cells = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><caption>{caption}</caption>{cells}</table>"


def _with_gap(cells: list[str], size: int) -> list[str]:
    """Return a row's cells, with a mark where some are not shown."""
    if len(cells) < size:
        cells.insert(Options.edgeitems, "&#8943;")
    return cells


def _is_summarised(shape: tuple[int, ...]) -> bool:
    return math.prod(shape) > Options.threshold


def _shown(x: Tensor) -> np.ndarray:
    """Return the elements that are printed: the edges, if it is summarised."""
    return _edges(x, 0) if _is_summarised(x.layout.shape) else x.host_copy()


def _edges(x: Tensor, dim: int) -> np.ndarray:
    if dim == x.ndim:
        return x.host_copy()
    size, edge = x.layout.shape[dim], Options.edgeitems
    if size <= 2 * edge:
        return _edges(x, dim + 1)
    ends = _edges(_part(x, dim, 0, edge), dim + 1)
    return np.concatenate(
        [ends, _edges(_part(x, dim, size - edge, edge), dim + 1)], axis=dim
    )


def _part(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Return a part of a dimension, a view."""
    shape, strides, offset = x.layout
    sizes = (*shape[:dim], length, *shape[dim + 1 :])
    return x.view_of(Layout(sizes, strides, offset + start * strides[dim]))


class _Format:
    """How the elements of a tensor are written, all in the same width."""

    def __init__(self, shown: np.ndarray) -> None:
        self.kind = shown.dtype.kind
        self.whole = self.scientific = False
        self.width = 0
        if self.kind == "c":
            self.parts = _Format(shown.real), _Format(shown.imag)
            self.width = self.parts[0].width + self.parts[1].width + 1
            return
        padded = shown.ravel()
        if self.kind == "f":
            # Zeros, infinities and NaN have no say in the width.
            padded = padded[np.isfinite(padded) & (padded != 0)]
            self._choose(np.abs(padded.astype(np.float64)))
        self.width = max(map(len, map(self.text, padded)), default=1)

    def _choose(self, sizes: np.ndarray) -> None:
        """Choose among whole numbers, digits and scientific notation."""
        self.whole = bool((sizes == np.ceil(sizes)).all())
        if sizes.size:
            least, most = sizes.min(), sizes.max()
            wide = most / least > 1000 or most > 1e8
            self.scientific = bool(wide or (not self.whole and least < 1e-4))
        if sizes.size and Options.sci_mode is not None:
            self.scientific = Options.sci_mode

    def text(self, element: Any) -> str:
        """Return an element as text, padded on its left."""
        if self.kind == "c":
            real, imag = self.parts
            second = imag.text(element.imag).lstrip()
            sign = "" if second.startswith("-") else "+"
            return f"{real.text(element.real)}{sign}{second}j"
        if self.kind != "f":
            return str(element).rjust(self.width)
        number = float(element)
        digits = Options.precision
        if self.scientific:
            text = f"{number:.{digits}e}"
        elif self.whole:
            text = f"{number:.0f}" + ("." if math.isfinite(number) else "")
        else:
            text = f"{number:.{digits}f}"
        return text.rjust(self.width)


def _lines(
    shown: np.ndarray, shape: tuple[int, ...], form: _Format, indent: int
) -> str:
    """Return nested lists of elements, with "..." for those that are not shown."""
    if not shape:
        return form.text(shown[()])
    if len(shape) == 1:
        return _row(shown, shape[0], form, indent)
    parts = [_lines(each, shape[1:], form, indent + 1) for each in shown]
    if len(shown) < shape[0]:
        parts.insert(Options.edgeitems, "...")
    between = "," + "\n" * (len(shape) - 1) + " " * (indent + 1)
    return f"[{between.join(parts)}]"


def _row(shown: np.ndarray, size: int, form: _Format, indent: int) -> str:
    """Return a list of elements, in lines of as many as fit."""
    fitting = max(1, (Options.linewidth - indent) // (form.width + 2))
    texts = [form.text(each) for each in shown]
    if len(shown) < size:
        texts.insert(Options.edgeitems, " ...")
    rows = [texts[k : k + fitting] for k in range(0, len(texts), fitting)]
    between = ",\n" + " " * (indent + 1)
    return f"[{between.join(', '.join(row) for row in rows)}]"
