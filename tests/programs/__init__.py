"""Ordinary training programs, written as for PyTorch.

`tests/test_programs.py` runs each with PyTorch, and again with two kinds of lines changed:
its imports of `torch`, and the line that chooses the device.
"""
