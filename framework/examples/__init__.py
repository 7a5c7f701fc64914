"""Example programs; run them with `python -m`."""
