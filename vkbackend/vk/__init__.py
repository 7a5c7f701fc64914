"""Vulkan through ctypes: generated declarations and the runtime that uses them."""
