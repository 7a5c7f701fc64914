"""Pooling and resampling."""
