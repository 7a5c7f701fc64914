"""Fourier transforms, and spectrograms."""
