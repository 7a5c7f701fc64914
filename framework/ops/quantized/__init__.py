"""Ops with quantized weights, and what their formats mean."""
