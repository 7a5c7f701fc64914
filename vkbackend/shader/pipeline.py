"""Compute pipelines: one layout for all, constants by name, arguments by name.

Every kernel has the same `VkPipelineLayout`: no descriptor sets and 128 bytes of push
constants, the least that every device offers. Which bytes mean what comes from the
SPIR-V of the kernel (`interface.validate_module`).
"""

import contextlib
import math
import struct
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.queue import Queue
from vkbackend.errors import ArgumentError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

from .float_controls import keep_special_values
from .interface import PUSH_SIZE, Constant, validate_module
from .pipeline_cache import PipelineCache
from .reflection import BlockLayout, Field, ShaderModule, SpecConstant

_COOPERATIVE_MATRIX = 6022  # SPIR-V's capability CooperativeMatrixKHR

# What `struct` raises of values that do not fit.
_UNFIT = (struct.error, TypeError, OverflowError)

# How each kind of scalar is packed; the size of a specialization constant follows it.
_FORMATS = {
    "address": "Q",
    "bool": "I",
    "uint": "I",
    "int": "i",
    "float": "f",
    "uint64": "Q",
    "int64": "q",
    "double": "d",
    "uint16": "H",
    "int16": "h",
    "float16": "e",
    "uint8": "B",
    "int8": "b",
}
_FOUND = (
    vk.VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT
    | vk.VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT
)
_NO_ARGUMENTS = BlockLayout(0, ())


class Pipeline:
    """Compute pipeline, ready to be dispatched; made by `Device.pipeline`.

    Attributes
    ----------
    name : str
        For messages: the kernel and the constants that were set.
    handle : int
        The `VkPipeline`.
    arguments : BlockLayout
        Its arguments.
    indirect : bool
        Whether its arguments are in memory and only their address is pushed.
    workgroup_size : tuple of int
        Invocations of a workgroup in x, y and z.
    """

    def __init__(
        self,
        handle: int,
        name: str,
        module: ShaderModule,
        workgroup: tuple[int, int, int],
    ) -> None:
        self.handle = handle
        self.name = name
        self.module = module
        self.workgroup_size = workgroup
        self.arguments = module.arguments or _NO_ARGUMENTS
        self.indirect = module.indirect
        # Push constants are written in whole words.
        self.argument_size = (self.arguments.size + 3) // 4 * 4
        self._format = _block_format(self.arguments, self.argument_size)

    def __repr__(self) -> str:
        return f"<Pipeline {self.name}>"

    def packer(self, names: Sequence[str]) -> Callable[..., bytes]:
        """Return a function that packs argument values given in the order of `names`.

        Parameters
        ----------
        names : sequence of str
            Every argument of the kernel exactly once.

        Returns
        -------
        callable
            Takes one value for each name: a number, or for an address an int or a
            Buffer. Returns the bytes for `Batch.dispatch`. A float beyond the range of
            its field is an infinity, as it is when rounded.

        Raises
        ------
        ArgumentError
            If a name is unknown, missing or given twice.
        """
        names = tuple(map(str, names))
        fields = tuple(field.name for field in self.arguments.fields)
        if sorted(names) != sorted(fields):
            raise ArgumentError(_name_error(self.name, fields, names))
        pack = self._format.pack
        pick = _reorder(names, fields)
        kind_of = {field.name: field.kind for field in self.arguments.fields}
        kinds = [kind_of[name] for name in names]

        # It must not call itself, or it would hold itself, and its kernel with it.
        def packed(*values: object) -> bytes:
            try:
                if pick is None:
                    return pack(*values)
                if len(values) != len(names):
                    raise TypeError("wrong number of values")
                return pack(*pick(values))
            except _UNFIT as error:
                message = self._value_error(names, values, error)
            rounded = _rounded(kinds, values)
            if rounded is not None:
                with contextlib.suppress(*_UNFIT):
                    return pack(*(rounded if pick is None else pick(rounded)))
            raise ArgumentError(message)

        return packed

    def table_packer(self, count: int) -> Callable[..., bytes]:
        """Return a function that packs the arguments of a kernel that takes rows.

        Parameters
        ----------
        count : int
            Rows.

        Returns
        -------
        callable
            Takes the values of the fields in front, then those of each row, in the
            order of `arguments.fields` and `arguments.rows.fields`.

        Raises
        ------
        ArgumentError
            If the kernel takes no rows.
        """
        rows = self.arguments.rows
        if rows is None:
            raise ArgumentError(f"{self.name}: the kernel takes no rows of arguments")
        head = _block_parts(self.arguments.fields, rows.offset)
        form = struct.Struct(
            "<" + head + _block_parts(rows.fields, rows.stride) * count
        )

        def packed(*values: object) -> bytes:
            try:
                return form.pack(*values)
            except _UNFIT as error:
                message = (
                    f"{self.name}: {count} rows of arguments cannot be packed ({error})"
                )
            fields = [*self.arguments.fields, *[*rows.fields] * count]
            rounded = _rounded([field.kind for field in fields], values)
            if rounded is not None:
                with contextlib.suppress(*_UNFIT):
                    return form.pack(*rounded)
            raise ArgumentError(message)

        return packed

    def takes(self, size: int) -> bool:
        """Return whether that many bytes are arguments of this kernel."""
        rows = self.arguments.rows
        if rows is None:
            return size == self.argument_size
        return size > rows.offset and (size - rows.offset) % rows.stride == 0

    def pack(self, **values: object) -> bytes:
        """Return the bytes of arguments given by name; see `packer`."""
        return self.packer(tuple(values))(*values.values())

    def _value_error(
        self, names: Sequence[str], values: Sequence[object], error: Exception
    ) -> str:
        given = ", ".join(f"{n}={v!r}" for n, v in zip(names, values, strict=False))
        kinds = ", ".join(f"{row.name}: {row.kind}" for row in self.arguments.fields)
        return (
            f"{self.name}: arguments cannot be packed ({error}): {len(values)} values"
            f" {given}; the kernel takes {kinds}"
        )


def _block_format(layout: BlockLayout, size: int) -> struct.Struct:
    """Return the packing of a block, with its gaps."""
    return struct.Struct("<" + _block_parts(layout.fields, size))


def _block_parts(fields: Sequence[Field], size: int) -> str:
    """Return the packing of fields within `size` bytes, with the gaps."""
    parts = []
    end = 0
    for field in sorted(fields, key=lambda row: row.offset):
        parts.append(f"{field.offset - end}x{_FORMATS[field.kind]}")
        end = field.offset + field.size
    return "".join([*parts, f"{size - end}x"])


def _rounded(
    kinds: Sequence[str], values: Sequence[object]
) -> tuple[object, ...] | None:
    """Return values with infinities for floats beyond their fields; None if none is."""
    if len(kinds) != len(values):
        return None
    made = tuple(
        math.copysign(math.inf, value)
        if isinstance(value, float) and _is_beyond(kind, value)
        else value
        for kind, value in zip(kinds, values)
    )
    changed = any(one is not other for one, other in zip(made, values))
    return made if changed else None


def _is_beyond(kind: str, value: float) -> bool:
    try:
        struct.pack("<" + _FORMATS[kind], value)
    except OverflowError:
        return True
    except struct.error:
        pass
    return False


def _reorder(
    names: Sequence[str], fields: Sequence[str]
) -> Callable[[tuple[object, ...]], tuple[object, ...]] | None:
    """Return what puts values in the order of the fields; None if they are already."""
    if tuple(names) == tuple(fields):
        return None
    return itemgetter(*(names.index(name) for name in fields))


def _name_error(kernel: str, fields: Sequence[str], names: Sequence[str]) -> str:
    missing = [name for name in fields if name not in names]
    unknown = [name for name in names if name not in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    problems = [
        f"{word} {', '.join(rows)}"
        for word, rows in (("missing", missing), ("unknown", unknown), ("twice", twice))
        if rows
    ]
    return (
        f"{kernel}: argument names do not match: {'; '.join(problems)}; the kernel"
        f" takes {', '.join(fields) or 'none'}"
    )


class PipelineBuilder:
    """Pipeline builder of one device: one layout and one pipeline cache for all.

    An unreferenced pipeline is destroyed when the next is built, after the work
    submitted by then: batches and recordings reference those that they dispatch.
    """

    def __init__(self, logical: LogicalDevice, queue: Queue) -> None:
        self._logical = logical
        self._queue = queue
        self._cache = PipelineCache(logical)
        self._handles: set[int] = set()
        # Filled by whatever drops a pipeline, which may happen at any moment.
        self._dropped: deque[int] = deque()
        self._unused: deque[tuple[int, int]] = deque()
        push = runtime.make(
            vk.VkPushConstantRange,
            stageFlags=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            size=PUSH_SIZE,
        )
        info = runtime.make(
            vk.VkPipelineLayoutCreateInfo,
            pushConstantRangeCount=1,
            pPushConstantRanges=push,
        )
        self.layout = logical.create("PipelineLayout", info, "every kernel")

    def build(
        self, words: bytes, name: str, constants: Mapping[str, Constant]
    ) -> Pipeline:
        """Build a pipeline; one thread at a time.

        Parameters
        ----------
        words : bytes
            SPIR-V.
        name : str
            What to call it.
        constants : mapping of str to bool, int or float
            Specialization constants by name; those not named keep their defaults.

        Raises
        ------
        ArgumentError
            If a constant is unknown, or a workgroup exceeds the device's limits.
        ShaderError
            If the shader asks for what the layout or the device does not have.
        """
        self._destroy_unused()
        module, values, workgroup = validate_module(
            name, words, constants, self._logical.info
        )
        title = " ".join([name, *(f"{k}={v}" for k, v in sorted(constants.items()))])
        words = keep_special_values(words, self._logical.info.special_value_widths)
        info = runtime.make(
            vk.VkShaderModuleCreateInfo, codeSize=len(words), pCode=words
        )
        shader = self._logical.create("ShaderModule", info, title)
        try:
            handle = self._create(shader, module, values, title)
        finally:
            self._logical.destroy("ShaderModule", shader)
        self._cache.built()
        pipeline = Pipeline(handle, title, module, workgroup)
        weakref.finalize(pipeline, self._dropped.append, handle).atexit = False
        return pipeline

    def _destroy_unused(self) -> None:
        """Destroy unreferenced pipelines without pending work."""
        queue, unused = self._queue, self._unused
        with self._logical.lock:
            while self._dropped:
                unused.append((queue.submitted, self._dropped.popleft()))
            while unused and queue.reached(unused[0][0]):
                _, handle = unused.popleft()
                self._handles.discard(handle)
                self._logical.destroy("Pipeline", handle)

    def _create(
        self,
        shader: int,
        module: ShaderModule,
        values: Mapping[int, Constant],
        title: str,
    ) -> int:
        logical = self._logical
        stage = runtime.make(
            vk.VkPipelineShaderStageCreateInfo,
            **subgroup_state(module, logical.info),
            stage=vk.VK_SHADER_STAGE_COMPUTE_BIT,
            module=shader,
            pName=module.entry_point,
            pSpecializationInfo=specialization(module, values),
        )
        said = vk.VkPipelineCreationFeedback()
        feedback = runtime.make(
            vk.VkPipelineCreationFeedbackCreateInfo,
            pPipelineCreationFeedback=said,
            pipelineStageCreationFeedbackCount=1,
            pPipelineStageCreationFeedbacks=vk.VkPipelineCreationFeedback(),
        )
        info = runtime.make(
            vk.VkComputePipelineCreateInfo,
            pNext=feedback,
            stage=stage,
            layout=self.layout,
        )
        handle = logical.create("Pipeline", info, title, self._cache.handle, 1)
        logical.counters.pipeline_builds += 1
        logical.counters.pipeline_hits += said.flags & _FOUND == _FOUND
        self._handles.add(handle)
        return handle

    def close(self) -> None:
        """Destroy every pipeline, save the cache and destroy it; the device is idle."""
        for handle in self._handles:
            self._logical.destroy("Pipeline", handle)
        self._handles.clear()
        self._logical.destroy("PipelineLayout", self.layout)
        self._cache.close()


def subgroup_state(module: ShaderModule, info: DeviceInfo) -> dict[str, object]:
    """Return the full-subgroups and required-size state of a coopmat shader's stage."""
    controls = {"subgroup_size_control", "full_subgroups"} <= info.supported
    if _COOPERATIVE_MATRIX not in module.capabilities or not controls:
        return {}
    return {
        "flags": vk.VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT,
        "pNext": runtime.make(
            vk.VkPipelineShaderStageRequiredSubgroupSizeCreateInfo,
            requiredSubgroupSize=info.subgroup_size,
        ),
    }


def specialization(
    module: ShaderModule, values: Mapping[int, Constant]
) -> vk.VkSpecializationInfo | None:
    """Return the constants as Vulkan takes them; None when all keep their defaults."""
    data = bytearray()
    entries = []
    for row in module.spec_constants:
        if row.id in values:
            content = _constant_bytes(row, values[row.id])
            entries.append(
                runtime.make(
                    vk.VkSpecializationMapEntry,
                    constantID=row.id,
                    offset=len(data),
                    size=len(content),
                )
            )
            data += content
    if not entries:
        return None
    return runtime.make(
        vk.VkSpecializationInfo,
        mapEntryCount=len(entries),
        pMapEntries=entries,
        dataSize=len(data),
        pData=bytes(data),
    )


def _constant_bytes(row: SpecConstant, value: Constant) -> bytes:
    try:
        return struct.pack(f"<{_FORMATS[row.type]}", value)
    except (struct.error, OverflowError) as error:
        raise ArgumentError(
            f"constant {row.name}: {value!r} does not fit ({error}); it is of type"
            f" {row.type}"
        ) from None
