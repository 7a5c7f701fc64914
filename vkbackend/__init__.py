"""Vulkan compute from Python: devices, buffers, kernels and batches of them.

Nothing here touches the Vulkan library until the first device is asked for.

Examples
--------
>>> device = open_device()
>>> buffer = device.allocate(4)
>>> device.upload(b"abcd", buffer)
>>> bytes(device.read(buffer))
b'abcd'
"""

from .batch import Batch
from .buffer import Buffer
from .command_batch import CommandBatch, batch
from .counters import Counters
from .device import Device
from .errors import (
    ArgumentError,
    DeviceLost,
    Error,
    NoCompilerError,
    NoVulkanError,
    OutOfDeviceMemory,
    ReentrantError,
    ShaderError,
    VulkanError,
)
from .futures import future_of
from .info import DeviceInfo
from .kernel_cache import KernelCache
from .opening import open_device
from .physical import PhysicalDevice, devices
from .pipeline import Pipeline
from .profile import Profile, Span
from .replay import Recording
from .timeline import TimelinePoint
from .verdicts import Verdict, Verdicts, verdict_file

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "Batch",
    "Buffer",
    "CommandBatch",
    "Counters",
    "Device",
    "DeviceInfo",
    "DeviceLost",
    "Error",
    "KernelCache",
    "NoCompilerError",
    "NoVulkanError",
    "OutOfDeviceMemory",
    "PhysicalDevice",
    "Pipeline",
    "Profile",
    "Recording",
    "ReentrantError",
    "ShaderError",
    "Span",
    "TimelinePoint",
    "Verdict",
    "Verdicts",
    "VulkanError",
    "batch",
    "devices",
    "future_of",
    "open_device",
    "verdict_file",
]
