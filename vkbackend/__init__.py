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

from vkbackend.collector import collector_paused as _collector_paused

with _collector_paused():
    # With it comes nearly all that is imported below, and stays.
    from vkbackend import device as _device  # noqa: F401

from vkbackend.arrays.command_batch import CommandBatch, batch
from vkbackend.arrays.kernel_cache import KernelCache
from vkbackend.command.batch import Batch
from vkbackend.command.dispatch_sequence import DispatchSequence, SequenceSubmission
from vkbackend.command.futures import future_of
from vkbackend.command.recording import Recording
from vkbackend.command.timestamps import Profile, Span
from vkbackend.counters import Counters
from vkbackend.device import Device
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.physical_device import PhysicalDevice, devices
from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import (
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
from vkbackend.memory.buffer import Buffer
from vkbackend.memory.host_pages import HostPages, window_pages
from vkbackend.memory.side_pool import host_pool
from vkbackend.memory.status_record import StatusRecord
from vkbackend.open_devices import open_device
from vkbackend.shader.pipeline import Pipeline
from vkbackend.tuning_cache import Verdict, Verdicts, verdict_file

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
    "DispatchSequence",
    "Error",
    "HostPages",
    "KernelCache",
    "NoCompilerError",
    "NoVulkanError",
    "OutOfDeviceMemory",
    "PhysicalDevice",
    "Pipeline",
    "Profile",
    "Recording",
    "ReentrantError",
    "SequenceSubmission",
    "ShaderError",
    "Span",
    "StatusRecord",
    "TimelinePoint",
    "Verdict",
    "Verdicts",
    "VulkanError",
    "batch",
    "devices",
    "future_of",
    "host_pool",
    "open_device",
    "verdict_file",
    "window_pages",
]
