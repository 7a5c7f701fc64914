"""Eager layer: the base of tensors below their ops, and the node recorder."""
