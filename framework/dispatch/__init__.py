"""Dispatch: declarations of ops, and their calls."""
