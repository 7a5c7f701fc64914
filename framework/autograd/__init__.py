"""Autograd: the tape, saved tensors and the backward pass."""
