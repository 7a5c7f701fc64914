"""Device properties and limits: immutable records."""

from dataclasses import dataclass, field
from functools import cached_property

from .target import Target, target_of


@dataclass(frozen=True)
class Heap:
    """Memory heap: its size in bytes and whether it is the device's own."""

    size: int
    device_local: bool


@dataclass(frozen=True)
class MatrixShape:
    """Cooperative-matrix operation result = a @ b + c that a device offers."""

    m: int
    n: int
    k: int
    a: str
    b: str
    c: str
    result: str
    scope: str
    saturating: bool


@dataclass(frozen=True)
class FlexibleMatrix(MatrixShape):
    """Cooperative-matrix products of sizes that a shader chooses.

    `m`, `n` and `k` are what the sizes must be multiples of; none may pass `largest`.
    `invocations` is the size of the workgroup, where that is the scope, otherwise 0.
    """

    invocations: int
    largest: int


@dataclass(frozen=True)
class QueueFamily:
    """Queue family: its index, `VkQueueFlagBits`, number of queues, timestamp bits.

    Without timestamps there are 0 bits.
    """

    index: int
    flags: int
    count: int
    timestamp_bits: int = 64


@dataclass(frozen=True)
class DeviceInfo:
    """Properties, limits and features of a device; immutable.

    Sizes are bytes, `timestamp_period` is nanoseconds per tick. `supported` holds the
    flags of `features.FEATURES`; the most used are attributes too.
    `special_value_widths` holds the bits of the floats whose NaN, infinities and signs
    of zero the driver keeps when a shader asks for it. `rounds_to_float16` is whether
    shaders have no other conversion to float16 than to the nearest, ties to even,
    denormal numbers kept. `preserves_subnormals` is whether float32 arithmetic can be
    asked to keep denormal numbers. `subgroup_operations` are `VkSubgroupFeatureFlags`.
    `uuid` is the card's under every driver, in hexadecimal digits; `pci_address` is
    domain:bus:device.function, empty where the driver does not tell.
    """

    name: str
    kind: str
    vendor_id: int
    device_id: int
    driver_name: str
    driver_info: str
    driver_version: int
    api_version: tuple[int, int, int]
    pipeline_cache_uuid: str
    max_push_size: int
    max_shared_memory: int
    max_workgroup_invocations: int
    max_workgroup_size: tuple[int, int, int]
    max_workgroup_count: tuple[int, int, int]
    max_allocation_size: int
    subgroup_size: int
    min_subgroup_size: int
    max_subgroup_size: int
    timestamp_period: float
    heaps: tuple[Heap, ...]
    subgroup_arithmetic: bool
    subgroup_shuffle: bool
    special_value_widths: tuple[int, ...]
    memory_budget: bool
    cooperative_matrix: tuple[MatrixShape, ...]
    supported: frozenset[str] = field(repr=False)
    flexible_matrix: tuple[FlexibleMatrix, ...] = ()
    rounds_to_float16: bool = False
    preserves_subnormals: bool = True
    subgroup_operations: int = 0
    uuid: str = ""
    pci_address: str = ""
    max_buffer_size: int = 0

    @cached_property
    def target(self) -> Target:
        """What pays on the device."""
        return target_of(self)

    @property
    def shader_int64(self) -> bool:
        """Whether shaders may use 64-bit integers."""
        return "shader_int64" in self.supported

    @property
    def shader_int16(self) -> bool:
        """Whether shaders may use 16-bit integers."""
        return "shader_int16" in self.supported

    @property
    def shader_int8(self) -> bool:
        """Whether shaders may use 8-bit integers."""
        return "shader_int8" in self.supported

    @property
    def shader_float16(self) -> bool:
        """Whether shaders may compute in float16."""
        return "shader_float16" in self.supported

    @property
    def shader_float64(self) -> bool:
        """Whether shaders may compute in float64."""
        return "shader_float64" in self.supported

    @property
    def storage_8bit(self) -> bool:
        """Whether buffers may hold 8-bit values."""
        return "storage_8bit" in self.supported

    @property
    def storage_16bit(self) -> bool:
        """Whether buffers may hold 16-bit values."""
        return "storage_16bit" in self.supported

    @property
    def subgroup_size_control(self) -> bool:
        """Whether a pipeline may ask for its subgroup size."""
        return "subgroup_size_control" in self.supported

    @property
    def float32_atomic_add(self) -> bool:
        """Whether float32 values in buffers can be added to atomically."""
        return "float32_atomic_add" in self.supported

    @property
    def bfloat16(self) -> bool:
        """Whether shaders may use the bfloat16 type."""
        return "bfloat16" in self.supported

    @property
    def vulkan_memory_model(self) -> bool:
        """Whether the Vulkan memory model is supported."""
        return "vulkan_memory_model" in self.supported
