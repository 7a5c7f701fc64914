"""Debugging tools: profiling, fusion reports and gradient checks."""
