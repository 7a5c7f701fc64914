"""GLSL text of kernel programs."""
