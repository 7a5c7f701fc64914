"""Fusion of element-wise work: what may join, and the GLSL of the result.

Everything here is pure: it sees shapes, expressions and text, never tensors or devices.
"""
