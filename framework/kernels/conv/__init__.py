"""Convolution kernels."""
