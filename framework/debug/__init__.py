"""Profiling, fusion reports and gradient checks."""
