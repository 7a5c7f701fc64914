"""NVIDIA's CUDA: there is none, and that is what this namespace says.

Programs that ask before they use one run unchanged; what needs one raises
`NoVulkanError`.
"""

from __future__ import annotations

from ..base.no_accelerator import Accelerator
from . import amp as amp

_none = Accelerator("cuda")

is_available = _none.is_available
device_count = _none.device_count
is_initialized = _none.is_initialized
is_bf16_supported = _none.is_bf16_supported
manual_seed = _none.manual_seed
manual_seed_all = _none.manual_seed_all
seed = _none.seed
seed_all = _none.seed_all
synchronize = _none.synchronize
empty_cache = _none.empty_cache
reset_peak_memory_stats = _none.reset_peak_memory_stats
memory_allocated = _none.memory_allocated
max_memory_allocated = _none.max_memory_allocated
memory_reserved = _none.memory_reserved
max_memory_reserved = _none.max_memory_reserved
device = _none.device

current_device = _none.absent("current_device")
get_device_name = _none.absent("get_device_name")
get_device_properties = _none.absent("get_device_properties")
get_device_capability = _none.absent("get_device_capability")
set_device = _none.absent("set_device")
current_stream = _none.absent("current_stream")
default_stream = _none.absent("default_stream")
stream = _none.absent("stream")
Stream = _none.absent("Stream")
Event = _none.absent("Event")
mem_get_info = _none.absent("mem_get_info")
memory_summary = _none.absent("memory_summary")
memory_stats = _none.absent("memory_stats")
get_rng_state = _none.absent("get_rng_state")
set_rng_state = _none.absent("set_rng_state")
get_rng_state_all = _none.absent("get_rng_state_all")
set_rng_state_all = _none.absent("set_rng_state_all")
CUDAGraph = _none.absent("CUDAGraph")
graph = _none.absent("graph")
ipc_collect = _none.absent("ipc_collect")

__all__ = [
    "CUDAGraph",
    "Event",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "graph",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]
