"""Autotuning: settings, keys and cached results."""
