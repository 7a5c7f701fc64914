"""NVIDIA's CUDA: there is none, and that is what this namespace says.

Programs that ask before they use one run unchanged; what needs one raises
`NoVulkanError`.
"""

from __future__ import annotations

from typing import Any

from vkbackend.errors import OutOfDeviceMemory, VulkanError

from ..base.late_modules import give_attributes as _give_attributes
from ..base.no_accelerator import Accelerator
from ..base.public_names import public_names as _public_names
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
stream = _none.stream
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

CUDAPluggableAllocator = _none.absent("CUDAPluggableAllocator")
ExternalStream = _none.absent("ExternalStream")
GreenContext = _none.absent("GreenContext")
MemPool = _none.absent("MemPool")
StreamContext = _none.absent("StreamContext")
caching_allocator_alloc = _none.absent("caching_allocator_alloc")
caching_allocator_delete = _none.absent("caching_allocator_delete")
can_device_access_peer = _none.absent("can_device_access_peer")
change_current_allocator = _none.absent("change_current_allocator")
clock_rate = _none.absent("clock_rate")
cudart = _none.absent("cudart")
current_blas_handle = _none.absent("current_blas_handle")
current_solver_handle = _none.absent("current_solver_handle")
device_memory_used = _none.absent("device_memory_used")
get_per_process_memory_fraction = _none.absent("get_per_process_memory_fraction")
get_stream_from_external = _none.absent("get_stream_from_external")
graph_pool_handle = _none.absent("graph_pool_handle")
host_memory_stats = _none.absent("host_memory_stats")
init = _none.absent("init")
is_current_stream_capturing = _none.absent("is_current_stream_capturing")
list_gpu_processes = _none.absent("list_gpu_processes")
make_graphed_callables = _none.absent("make_graphed_callables")
memory_snapshot = _none.absent("memory_snapshot")
memory_stats_as_nested_dict = _none.absent("memory_stats_as_nested_dict")
memory_usage = _none.absent("memory_usage")
power_draw = _none.absent("power_draw")
set_per_process_memory_fraction = _none.absent("set_per_process_memory_fraction")
set_stream = _none.absent("set_stream")
temperature = _none.absent("temperature")
use_mem_pool = _none.absent("use_mem_pool")
utilization = _none.absent("utilization")
FloatTensor = _none.absent("FloatTensor")
LongTensor = _none.absent("LongTensor")
HalfTensor = _none.absent("HalfTensor")
DoubleTensor = _none.absent("DoubleTensor")
IntTensor = _none.absent("IntTensor")
ByteTensor = _none.absent("ByteTensor")
BoolTensor = _none.absent("BoolTensor")
CharTensor = _none.absent("CharTensor")
ShortTensor = _none.absent("ShortTensor")
BFloat16Tensor = _none.absent("BFloat16Tensor")

OutOfMemoryError = OutOfDeviceMemory
AcceleratorError = CudaError = VulkanError
initial_seed = _none.initial_seed
memory_cached = _none.memory_reserved
max_memory_cached = _none.max_memory_reserved
reset_max_memory_allocated = _none.reset_peak_memory_stats
reset_max_memory_cached = _none.reset_peak_memory_stats
reset_accumulated_memory_stats = _none.reset_peak_memory_stats
get_arch_list = _none.get_arch_list
get_gencode_flags = _none.get_gencode_flags
is_tf32_supported = _none.is_tf32_supported
default_generators: tuple[Any, ...] = ()
has_half = has_magma = False

__all__ = [
    "AcceleratorError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "CharTensor",
    "CudaError",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatTensor",
    "GreenContext",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "MemPool",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "change_current_allocator",
    "clock_rate",
    "cudart",
    "current_blas_handle",
    "current_device",
    "current_solver_handle",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "power_draw",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "temperature",
    "use_mem_pool",
    "utilization",
]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals(), "amp")


_give_attributes(__name__)
