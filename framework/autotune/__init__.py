"""Autotuning: settings, tuning keys and cached results."""
