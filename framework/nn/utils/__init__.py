"""Utilities of networks: padding, clipping, parametrizations, parameters as vectors."""

from . import rnn

__all__ = ["rnn"]
