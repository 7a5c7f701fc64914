"""Kernel selection: which kernel an operation launches, its tiles and arguments.

No operation is called from here.
"""
