"""Sorting, counting and selecting."""
