"""What GGUF files say of single tokens. Source: the package gguf, `constants.py`."""

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Types of tokens; those but the first and the last are no ordinary pieces of text."""
SPACE = "\u2581"
"""What a piece has for a space."""
