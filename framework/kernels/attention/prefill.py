"""Flash attention of many queries over a cache."""

from __future__ import annotations

import dataclasses
import math

from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import Argument, Dispatch, Scratch, StridedSpec, check_rounds
from .flash import MOST_HEAD, AttentionCall, flash_dispatch


def fits_prefill(q: TensorSpec, keys: TensorSpec) -> bool:
    """Return whether `prefill_dispatch` takes queries of a cache."""
    empty = 0 in (*q.shape, *keys.shape)
    return q.shape[3] <= MOST_HEAD and not empty


def prefill_dispatch(
    call: AttentionCall,
    tables: StridedSpec | None,
    window: int | None,
    cap: float | None,
) -> Dispatch:
    """Return the dispatch of attention over a cache, up to each query's own token.

    Parameters
    ----------
    call : AttentionCall
        Its keys and values are (batch, key_heads, room, head), with tables (pages,
        key_heads, page, head).
    tables : StridedSpec or None, int64, shape (batch, blocks)
    window : int or None
        Number of tokens that a query sees at most, the nearest ones.
    cap : float or None
        Scores are cap * tanh(score / cap).
    """
    pages, _, page, _ = call.k.shape
    room = page if tables is None else page * tables.shape[1]
    own: dict[str, Argument] = {"out_": "out", "position": "position"}
    own |= {"tables": "tables" if tables else "position"}
    own |= {"pages": pages, "window": window or 0}
    own["cap"] = cap or 0.0
    own["logsumexp"] = Scratch("logsumexp", 4 * math.prod(call.q.shape[:3]))
    kernel = "attention/flash"
    found = flash_dispatch(kernel, own, call._replace(causal=True), large_simt=False)
    constants = found.constants
    if "LANES" in constants:
        span = int(constants["TILE"] * constants["LANES"])
        rounds = (call.q.shape[3] + span) // 2 + span
        check_rounds(call.gpu, kernel, ceil_div(room, span) * rounds)
    constants = {**constants, "PAGE": 0 if tables is None else page}
    return dataclasses.replace(
        found,
        push={**found.push, "keys": room},
        constants={**constants, "CAPPED": int(cap is not None)},
        defines={**found.defines, "PAGED": "1"},
    )
