"""Code generation: fusion of element-wise work and reductions, and its GLSL.

`partitioner` groups nodes; `lower` makes the program of a group, and `rowwise_kernel`
that of a group with row reductions; `glsl` prints it.

All of it is pure: it sees shapes, expressions and text, never tensors or devices.
"""
