"""Apple's Metal: there is none, and that is what this namespace says.

Programs that ask before they use one run unchanged; what needs one raises
`NoVulkanError`.
"""

from __future__ import annotations

from .base.no_accelerator import Accelerator
from .base.public_names import public_names as _public_names

_none = Accelerator("mps")

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

current_allocated_memory = _none.absent("current_allocated_memory")
driver_allocated_memory = _none.absent("driver_allocated_memory")
set_per_process_memory_fraction = _none.absent("set_per_process_memory_fraction")
get_rng_state = _none.absent("get_rng_state")
set_rng_state = _none.absent("set_rng_state")

__all__ = [
    "current_allocated_memory",
    "device",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
