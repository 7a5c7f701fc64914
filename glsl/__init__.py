"""Compute shaders: `<family>/<kernel>.comp`, and what they include in `lib/`.

A package without code, so that the shaders are installed and found like modules.
"""
