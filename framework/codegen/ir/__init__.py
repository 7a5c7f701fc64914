"""Kernel programs as plain hashable values."""
