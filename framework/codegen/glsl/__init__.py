"""GLSL emission: the shader text of kernel programs."""
