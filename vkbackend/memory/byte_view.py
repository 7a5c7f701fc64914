"""Bytes of what programs give: arrays and anything else with a buffer."""

import re
from typing import Any

from vkbackend.errors import ArgumentError

_FIELD_NAME = re.compile(r":[^:]*:")
"""The name of a field, in the format of a structured array."""


def byte_view(where: str, data: Any) -> memoryview:
    """Return the bytes of an object without copying them."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{where}: {type(data).__name__} is not accepted ({error}); give bytes, or"
            " an array of numbers"
        ) from None
    if "O" in _FIELD_NAME.sub("", view.format):
        raise ArgumentError(
            f"{where}: the data holds Python objects, which have no bytes of their own;"
            " convert it to an array of numbers"
        )
    if not view.c_contiguous:
        raise ArgumentError(
            f"{where}: the data is not C-contiguous: shape {view.shape}, strides"
            f" {view.strides}; call numpy.ascontiguousarray first"
        )
    return view.cast("B") if view.nbytes else memoryview(b"")
