"""Intel's accelerators: there is none, and that is what this namespace says.

Programs that ask before they use one run unchanged; what needs one raises
`NoVulkanError`.
"""

from __future__ import annotations

from .base.no_accelerator import Accelerator
from .base.public_names import public_names as _public_names

_none = Accelerator("xpu")

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
set_device = _none.absent("set_device")
get_rng_state = _none.absent("get_rng_state")
set_rng_state = _none.absent("set_rng_state")
get_device_capability = _none.absent("get_device_capability")
current_stream = _none.absent("current_stream")
set_stream = _none.absent("set_stream")
stream = _none.absent("stream")
StreamContext = _none.absent("StreamContext")
mem_get_info = _none.absent("mem_get_info")
memory_stats = _none.absent("memory_stats")
memory_stats_as_nested_dict = _none.absent("memory_stats_as_nested_dict")
memory_snapshot = _none.absent("memory_snapshot")
get_rng_state_all = _none.absent("get_rng_state_all")
set_rng_state_all = _none.absent("set_rng_state_all")
can_device_access_peer = _none.absent("can_device_access_peer")
get_stream_from_external = _none.absent("get_stream_from_external")
Stream = _none.absent("Stream")
Event = _none.absent("Event")

initial_seed = _none.initial_seed
get_arch_list = _none.get_arch_list
get_gencode_flags = _none.get_gencode_flags
reset_accumulated_memory_stats = _none.reset_peak_memory_stats

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "initial_seed",
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
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
