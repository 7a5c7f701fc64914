"""Device features and limits that the library uses, and the cost of lacking them."""

from dataclasses import dataclass

LOSSES = {
    "buffer_device_address": "required: kernels get their buffers by address",
    "timeline_semaphore": "required: all waiting counts submissions",
    "synchronization2": "required: every barrier and submission uses it",
    "shader_int64": "64-bit integers in kernels; int64 goes through pairs of words",
    "shader_int16": "16-bit integer arithmetic; it is done in 32 bits",
    "shader_float64": "float64 on the device; it is left to the host",
    "storage_16bit": "16-bit loads and stores; they go through 32-bit words",
    "storage_8bit": "8-bit loads and stores; they go through 32-bit words",
    "shader_float16": "float16 arithmetic; it is done in float32",
    "shader_int8": "8-bit integer arithmetic; it is done in 32 bits",
    "push_constant_16bit": "16-bit arguments of kernels; they are given as words",
    "push_constant_8bit": "8-bit arguments of kernels; they are given as words",
    "buffer_int64_atomics": "64-bit atomics in kernels of users",
    "scalar_block_layout": "arguments without padding",
    "vulkan_memory_model": "kernels that state the order of memory accesses",
    "device_scope_memory_model": "memory order among workgroups of one kernel",
    "subgroup_extended_types": "subgroup operations on 8-, 16- and 64-bit types",
    "host_query_reset": "timestamps that the host resets, for profiles",
    "subgroup_size_control": "kernels with a subgroup size of their choice",
    "full_subgroups": "kernels that rely on full subgroups",
    "integer_dot_product": "int8 dot products in one instruction",
    "maintenance4": "workgroup sizes as specialization constants",
    "float32_atomic_add": "float32 sums by atomics in buffers",
    "shared_float32_atomic_add": "float32 sums by atomics in shared memory",
    "bfloat16": "the bfloat16 type in kernels; it is converted by hand",
    "bfloat16_cooperative_matrix": "bfloat16 products on matrix units",
    "cooperative_matrices": "matrix units: products run on the plain float32 kernels",
    "matrix_workgroup_scope": "matrices as large as a workgroup can hold",
    "matrix_flexible_dimensions": "matrix sizes between the fixed ones",
    "matrix_reductions": "row sums inside matrices, for attention",
    "matrix_conversions": "conversions of matrices between uses",
    "matrix_per_element": "epilogues on matrix elements without shared memory",
    "matrix_tensor_addressing": "matrix loads with bounds and strides",
    "matrix_block_loads": "matrix loads that decode blocks, for quantised weights",
    "pipeline_statistics": "registers, spills and the driver's own code in vkspirv",
    "subgroup_arithmetic": "sums within a subgroup; shared memory is used",
    "subgroup_shuffle": "products by subgroup; tiles in shared memory are used",
    "memory_budget": "knowing what other programs leave of the memory",
}
"""By flag of `features.FEATURES` or field of `DeviceInfo`."""


@dataclass(frozen=True)
class DeviceLimit:
    """Device limit that constrains kernels.

    Parameters
    ----------
    name : str
        The field of `DeviceInfo`.
    wanted : int
        Below it, something is lost; 0 for those that are only told.
    unit : str
        Of the value.
    meaning : str
        What it bounds.
    """

    name: str
    wanted: int
    unit: str
    meaning: str


LIMITS = (
    DeviceLimit(
        "max_push_size", 128, "bytes", "arguments pushed; more go through memory"
    ),
    DeviceLimit("max_shared_memory", 32768, "bytes", "tiles of matrix products"),
    DeviceLimit("max_workgroup_invocations", 256, "", "invocations that share a tile"),
    DeviceLimit("max_workgroup_size", 0, "", "the same by dimension"),
    DeviceLimit("max_workgroup_count", 0, "", "workgroups of one dispatch"),
    DeviceLimit("max_allocation_size", 1 << 30, "bytes", "the largest tensor"),
    DeviceLimit("subgroup_size", 0, "", "invocations that exchange values directly"),
    DeviceLimit("timestamp_period", 0, "ns", "one tick of the profiler's clock"),
)


@dataclass(frozen=True)
class GlslExtension:
    """GLSL extension that kernels may require of the compiler.

    Parameters
    ----------
    name : str
        As in `#extension`.
    use : str
        GLSL that uses it, for the body of a function; shows that it works.
    serves : str
        What is lost without it.
    required : bool, default False
        Whether the float32 core needs it.
    declares : str, default ""
        GLSL before the function.
    """

    name: str
    use: str
    serves: str
    required: bool = False
    declares: str = ""


EXTENSIONS = (
    GlslExtension(
        "GL_EXT_buffer_reference",
        "words.at[0] = 1;",
        "every kernel",
        required=True,
        declares="layout(buffer_reference) buffer Words { uint at[]; };"
        " layout(push_constant) uniform Push { Words words; };",
    ),
    GlslExtension(
        "GL_EXT_control_flow_attributes",
        "[[unroll]] for (int i = 0; i < 4; ++i) {}",
        "matrix products and convolutions",
        required=True,
    ),
    GlslExtension(
        "GL_EXT_scalar_block_layout",
        "",
        "arguments without padding",
    ),
    GlslExtension(
        "GL_KHR_shader_subgroup_basic",
        "uint x = gl_SubgroupSize;",
        "kernels by subgroup",
    ),
    GlslExtension(
        "GL_KHR_shader_subgroup_arithmetic",
        "uint x = subgroupAdd(1u);",
        "sums within a subgroup",
    ),
    GlslExtension(
        "GL_KHR_shader_subgroup_shuffle",
        "uint x = subgroupShuffleXor(1u, 1u);",
        "products by subgroup",
    ),
    GlslExtension(
        "GL_EXT_shader_explicit_arithmetic_types_int64",
        "uint64_t x = 1ul;",
        "64-bit integers",
    ),
    GlslExtension(
        "GL_EXT_shader_explicit_arithmetic_types_int16",
        "int16_t x = int16_t(1);",
        "16-bit integers",
    ),
    GlslExtension(
        "GL_EXT_shader_explicit_arithmetic_types_int8",
        "int8_t x = int8_t(1);",
        "8-bit integers",
    ),
    GlslExtension(
        "GL_EXT_shader_explicit_arithmetic_types_float16",
        "float16_t x = float16_t(1.0);",
        "float16 arithmetic",
    ),
    GlslExtension("GL_EXT_shader_16bit_storage", "", "16-bit loads and stores"),
    GlslExtension("GL_EXT_shader_8bit_storage", "", "8-bit loads and stores"),
    GlslExtension("GL_EXT_shader_atomic_float", "", "float32 sums by atomics"),
    GlslExtension("GL_KHR_memory_scope_semantics", "", "the Vulkan memory model"),
    GlslExtension("GL_KHR_cooperative_matrix", "", "matrix units"),
    GlslExtension("GL_NV_cooperative_matrix2", "", "matrices of a whole workgroup"),
    GlslExtension("GL_EXT_bfloat16", "bfloat16_t x = bfloat16_t(1.0);", "bfloat16"),
    GlslExtension("GL_EXT_integer_dot_product", "", "int8 dot products"),
)

REQUIRED_EXTENSIONS = tuple(row.name for row in EXTENSIONS if row.required)
