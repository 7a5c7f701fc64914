"""GLSL to SPIR-V, reflection, pipelines."""
