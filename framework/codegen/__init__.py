"""Fusion of element-wise work and reductions: what may join, and the GLSL of it.

`partitioner` groups operations; `lower_elementwise` and `glsl.elementwise` make the
kernel of an element-wise group, `lower_rowwise` and `glsl.rowwise` that of a group with
reductions of rows.

Everything here is pure: it sees shapes, expressions and text, never tensors or devices.
"""
