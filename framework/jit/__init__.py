"""Whole steps traced once and replayed: `jit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.late_modules import register
from .decorator import jit

if TYPE_CHECKING:
    from .trace_cache import Jitted as Jitted

__all__ = ["Jitted", "jit"]

register(__name__, (), {"Jitted": "jit.trace_cache:Jitted"})
