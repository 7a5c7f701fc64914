"""Flash attention of many queries over the pages of a cache."""

from __future__ import annotations

import dataclasses
import math

from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import Argument, Dispatch, Scratch, StridedSpec, check_rounds
from .flash import MOST_HEAD, AttentionCall, flash_dispatch


def fits_pages(q: TensorSpec, keys: TensorSpec) -> bool:
    """Return whether `paged_dispatch` takes queries of a cache of pages."""
    empty = 0 in (*q.shape, *keys.shape)
    return q.shape[3] <= MOST_HEAD and not empty


def paged_dispatch(
    call: AttentionCall, tables: StridedSpec, window: int | None, cap: float | None
) -> Dispatch:
    """Return the dispatch of attention over pages, up to each query's own token.

    Parameters
    ----------
    call : AttentionCall
        Its keys and values are (pages, key_heads, page, head).
    tables : StridedSpec, int64, shape (batch, blocks)
    window : int or None
        Number of tokens that a query sees at most, the nearest ones.
    cap : float or None
        Scores are cap * tanh(score / cap).
    """
    pages, _, page, _ = call.k.shape
    room = page * tables.shape[1]
    own: dict[str, Argument] = {"out_": "out", "position": "position"}
    own |= {"tables": "tables", "pages": pages, "window": window or 0}
    own["cap"] = cap or 0.0
    own["logsumexp"] = Scratch("logsumexp", 4 * math.prod(call.q.shape[:3]))
    kernel = "attention/flash"
    found = flash_dispatch(kernel, own, call._replace(causal=True), large_simt=False)
    constants = found.constants
    if "LANES" in constants:
        span = int(constants["TILE"] * constants["LANES"])
        rounds = (call.q.shape[3] + span) // 2 + span
        check_rounds(call.gpu, kernel, ceil_div(room, span) * rounds)
    return dataclasses.replace(
        found,
        push={**found.push, "keys": room},
        constants={**constants, "PAGE": page, "CAPPED": int(cap is not None)},
        defines={**found.defines, "PAGED": "1"},
    )
