"""Driver statistics of a compiled kernel: registers, spills, machine code.

Through VK_KHR_pipeline_executable_properties, which most drivers of real devices have.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.errors import VulkanError
from vkbackend.shader.float_controls import keep_special_values
from vkbackend.shader.interface import PUSH_SIZE, ValidatedModule, validate_module
from vkbackend.shader.pipeline import specialization, subgroup_state
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

from .module import Constant

FLAG = "pipeline_statistics"
_LOCAL_MEMORY_BASE = 1 << 36
"""NVIDIA adds this constant to what it says of local memory (seen with driver 580)."""

_FORMATS = {
    vk.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: "b32",
    vk.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: "i64",
    vk.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: "u64",
    vk.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: "f64",
}


@dataclass(frozen=True)
class Statistic:
    """Driver statistic: its name, description and value."""

    name: str
    description: str
    value: bool | int | float


@dataclass(frozen=True)
class Representation:
    """Internal representation of a kernel; text, or its size in bytes if binary."""

    name: str
    description: str
    text: str
    size: int


@dataclass(frozen=True)
class PipelineExecutable:
    """Compiled kernel of a driver: statistics and internal representations."""

    name: str
    description: str
    subgroup_size: int
    statistics: tuple[Statistic, ...]
    representations: tuple[Representation, ...]


def executables(
    logical: LogicalDevice, words: bytes, constants: Mapping[str, Constant]
) -> tuple[PipelineExecutable, ...]:
    """Compile a kernel on a device and return what the driver says of it.

    Parameters
    ----------
    logical : LogicalDevice
        An opened device.
    words : bytes
        The module.
    constants : mapping of str to bool, int or float
        Specialization constants by name.

    Returns
    -------
    tuple of PipelineExecutable
        Empty if the device cannot tell.

    Raises
    ------
    ShaderError, ArgumentError
        If the kernel asks for what the layout or the device does not have.
    VulkanError
        If the driver refuses the kernel.
    """
    validated = validate_module("vkspirv", words, constants, logical.info)
    if FLAG not in logical.info.supported:
        return ()
    pipeline, destroy = _build(logical, words, validated)
    try:
        return read(logical.functions, logical.handle, pipeline)
    finally:
        destroy()


def _build(
    logical: LogicalDevice, words: bytes, validated: ValidatedModule
) -> tuple[int, Any]:
    """Return a pipeline that can be looked into, and what destroys it."""
    module, values, _ = validated
    words = keep_special_values(words, logical.info.special_value_widths)
    code = runtime.make(vk.VkShaderModuleCreateInfo, codeSize=len(words), pCode=words)
    layout = logical.create("PipelineLayout", _layout_info(), "vkspirv")
    shader = logical.create("ShaderModule", code, "vkspirv")
    stage = runtime.make(
        vk.VkPipelineShaderStageCreateInfo,
        **subgroup_state(module, logical.info),
        stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
        module=shader,
        pName=module.entry_point,
        pSpecializationInfo=specialization(module, values),
    )
    info = runtime.make(
        vk.VkComputePipelineCreateInfo,
        flags=vk.VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR
        | vk.VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR,
        stage=stage,
        layout=layout,
    )
    handle = ctypes.c_uint64()
    result = logical.functions.vkCreateComputePipelines(
        logical.handle, 0, 1, ctypes.byref(info), None, ctypes.byref(handle)
    )

    def destroy() -> None:
        if handle.value:
            logical.functions.vkDestroyPipeline(logical.handle, handle.value, None)
        logical.destroy("ShaderModule", shader)
        logical.destroy("PipelineLayout", layout)

    try:
        runtime.check("vkCreateComputePipelines", result, "vkspirv")
    except VulkanError:
        destroy()
        raise
    return handle.value, destroy


def _layout_info() -> ctypes.Structure:
    """Return the library's one layout: no descriptors, a block of push constants."""
    push = runtime.make(
        vk.VkPushConstantRange,
        stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
        size=PUSH_SIZE,
    )
    return runtime.make(
        vk.VkPipelineLayoutCreateInfo,
        pushConstantRangeCount=1,
        pPushConstantRanges=push,
    )


def read(functions: Any, device: int, pipeline: int) -> tuple[PipelineExecutable, ...]:
    """Return what a driver says of a pipeline that was built to be looked into.

    Parameters
    ----------
    functions : runtime.Functions
        Functions of the device.
    device, pipeline : int
        Their handles.
    """
    info = runtime.make(vk.VkPipelineInfoKHR, pipeline=pipeline)
    rows = runtime.enumerate_all(
        functions.vkGetPipelineExecutablePropertiesKHR,
        device,
        ctypes.byref(info),
        struct=vk.VkPipelineExecutablePropertiesKHR,
    )
    found = []
    for index, row in enumerate(rows):
        which = runtime.make(
            vk.VkPipelineExecutableInfoKHR, pipeline=pipeline, executableIndex=index
        )
        statistics = runtime.enumerate_all(
            functions.vkGetPipelineExecutableStatisticsKHR,
            device,
            ctypes.byref(which),
            struct=vk.VkPipelineExecutableStatisticKHR,
        )
        found.append(
            PipelineExecutable(
                _text(row.name),
                _text(row.description),
                row.subgroupSize,
                tuple(map(_statistic, statistics)),
                _representations(functions, device, which),
            )
        )
    return tuple(found)


def _statistic(row: Any) -> Statistic:
    value = getattr(row.value, _FORMATS.get(row.format, "u64"))
    name = _text(row.name)
    if row.format == vk.VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
        value = bool(value)
    elif "Local Memory" in name and value >= _LOCAL_MEMORY_BASE:
        value -= _LOCAL_MEMORY_BASE
    return Statistic(name, _text(row.description), value)


def _representations(
    functions: Any, device: int, which: ctypes.Structure
) -> tuple[Representation, ...]:
    """Return the forms of one executable: sizes first, then the contents."""
    call = functions.vkGetPipelineExecutableInternalRepresentationsKHR
    kind = vk.VkPipelineExecutableInternalRepresentationKHR
    count = ctypes.c_uint32()
    reference = ctypes.byref(which)
    runtime.check(_NAME, call(device, reference, ctypes.byref(count), None))
    rows = (kind * count.value)()
    for row in rows:
        row.sType = vk.STRUCTURE_TYPES[kind]
    runtime.check(_NAME, call(device, reference, ctypes.byref(count), rows))
    buffers = [ctypes.create_string_buffer(row.dataSize) for row in rows]
    for row, buffer in zip(rows, buffers):
        row.pData = ctypes.addressof(buffer)
    runtime.check(_NAME, call(device, reference, ctypes.byref(count), rows))
    return tuple(
        Representation(
            _text(row.name),
            _text(row.description),
            buffer.value.decode("utf-8", "replace") if row.isText else "",
            row.dataSize,
        )
        for row, buffer in zip(rows, buffers)
    )


_NAME = "vkGetPipelineExecutableInternalRepresentationsKHR"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
