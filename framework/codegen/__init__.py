"""Code generation: fusion of element-wise work and reductions, and its GLSL.

`partitioner` groups nodes; `lower_elementwise` and `glsl.elementwise` make the kernel
of an element-wise group, `lower_rowwise` and `glsl.rowwise` that of a group with
row reductions.

All of it is pure: it sees shapes, expressions and text, never tensors or devices.
"""
