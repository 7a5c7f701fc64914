"""SVG drawing of kernels: boxes in columns, with curves from writers to readers."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

_LINE = 16
_PAD = 8
_GAP = 14
_MARGIN = 16
_HEAD = 28
_LETTER = 7.3
_LANES = 6
_LANE = 14
_LEAST = 160

_STYLE = (
    "text{font:12px monospace;fill:#222}.t{font-weight:bold}"
    ".made{fill:#e3f1e5;stroke:#3c7d4a}.hand{fill:#e6ecf7;stroke:#40609c}"
    "path{fill:none;stroke:#b0562f;stroke-width:1.3}.why{font-size:10px;fill:#b0562f}"
)


class Box(NamedTuple):
    """Box of one kernel: its title, its lines, and whether it was generated."""

    title: str
    lines: tuple[str, ...]
    generated: bool


class Arrow(NamedTuple):
    """Arrow from one box to a later one, by index, with its label."""

    first: int
    second: int
    reason: str


Column = tuple[str, Sequence[Box], Sequence[Arrow]]
"""A title, boxes from top to bottom, and edges between them."""


def draw(title: str, columns: Sequence[Column]) -> str:
    """Return the picture as SVG text.

    Parameters
    ----------
    title : str
        Heading of the picture.
    columns : sequence of Column
        Side by side. Each edge leads downwards, shows its reason where a pointer rests
        on it, and has its number beside its end; the reasons stand below the boxes.
    """
    parts: list[str] = []
    left, height = float(_MARGIN), 0.0
    for column in columns:
        width, bottom = _draw_column(column, left, parts)
        left += width + 2 * _MARGIN
        height = max(height, bottom)
    width = max(left, _MARGIN * 2 + len(title) * _LETTER)
    height = max(height, _MARGIN + _HEAD) + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
    )
    style = f"<style>{_STYLE}</style>"
    ground = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#fff"/>'
    heading = _text(_MARGIN, _MARGIN + 4, title, "t")
    return "\n".join([head, style, ground, heading, *parts, "</svg>", ""])


def _draw_column(column: Column, left: float, parts: list[str]) -> tuple[float, float]:
    """Add a column; return its width and its lower end."""
    title, boxes, edges = column
    reasons = [f"{at}: {edge.reason}" for at, edge in enumerate(edges, start=1)]
    texts = [line for box in boxes for line in (box.title, *box.lines)]
    inner = max([_LEAST, *(len(text) * _LETTER + 2 * _PAD for text in texts)])
    lanes = _LANES * _LANE
    top = float(_MARGIN + _HEAD)
    parts.append(_text(left, top, title, "t"))
    top += _GAP
    spans = []
    for box in boxes:
        height = _LINE * (1 + len(box.lines)) + _PAD
        spans.append((top, top + height))
        parts += _draw_box(box, left + lanes, top, inner, height)
        top += height + _GAP
    for at, edge in enumerate(edges):
        parts += _draw_edge(at, edge, left + lanes, spans)
    for reason in reasons:
        top += _LINE
        parts.append(_text(left, top, reason, "why"))
    widest = max([len(text) * _LETTER for text in (title, *reasons)])
    return max(lanes + inner, widest), top


def _draw_box(
    box: Box, left: float, top: float, width: float, height: float
) -> list[str]:
    kind = "made" if box.generated else "hand"
    frame = f'x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{height:.0f}"'
    parts = [f'<rect class="{kind}" rx="5" {frame}/>']
    parts.append(_text(left + _PAD, top + _LINE, box.title, "t"))
    parts += [
        _text(left + _PAD, top + _LINE * (row + 2), line)
        for row, line in enumerate(box.lines)
    ]
    return parts


def _draw_edge(
    at: int, edge: Arrow, left: float, spans: Sequence[tuple[float, float]]
) -> list[str]:
    """Return a curve at the left of the boxes, longer ones farther out."""
    start = sum(spans[edge.first]) / 2 + 3 * (at % 4)
    end = sum(spans[edge.second]) / 2 - 3 * (at % 4)
    out = left - _LANE * min(_LANES, edge.second - edge.first)
    curve = f"M{left:.0f} {start:.0f}C{out:.0f} {start:.0f} {out:.0f} {end:.0f}"
    return [
        f'<path d="{curve} {left:.0f} {end:.0f}"><title>{escape(edge.reason)}</title>'
        f"</path>",
        _text(out, end - 2, str(at + 1), "why"),
    ]


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.0f}" y="{y:.0f}">{escape(text)}</text>'
