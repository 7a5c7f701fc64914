"""Fusion of element-wise work and reductions: what may join, and the GLSL of it.

`rules` groups operations; `build` and `emit` make the kernel of an element-wise group,
`row_build` and `row_emit` that of a group with reductions of rows.

Everything here is pure: it sees shapes, expressions and text, never tensors or devices.
"""
