"""What pays on a device: the target that kernels are chosen for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device_info import DeviceInfo

LOOP_LIMIT = 32768
"""Loop iterations that a shader may make on a software device.

Mesa before 23 ends loops after 65,535 rounds in all, silently.
"""

_WIDE = 64
_AMD, _NVIDIA = 0x1002, 0x10DE


@dataclass(frozen=True)
class Staging:
    """How copies between the host and a device go through staging memory.

    `python -m vkbackend.tools.bench.staging` times others.

    Attributes
    ----------
    chunk_size : int
        Bytes of a staging chunk, which a device copies at once: at 48 GB/s 4 MiB take
        ten times their submission.
    upload_chunks, read_chunks : int
        Most chunks in flight: of uploads; of a read.
    threads : int
        Most threads that share what the host copies, the caller's included.
    slice_size : int
        Bytes that a thread copies at a time: 60 us or more, handing over takes a few.
    most_mapped : int or None
        Bytes up to which the host writes memory of a card that nothing uses where that
        is mapped; more goes through staging memory. None writes all of it there.
    idle_cores : int or None
        Cores that do not copy, where half of them would be more; None leaves half.
    """

    chunk_size: int = 4 << 20
    upload_chunks: int = 8
    read_chunks: int = 4
    threads: int = 8
    slice_size: int = 512 << 10
    most_mapped: int | None = None
    idle_cores: int | None = None


CARD_STAGING = Staging(chunk_size=16 << 20)
"""Of 64 MiB beside an H200 (driver 580.159.04, 16 cores, 2026-11-29), in GB/s with
chunks of 4, 8 and 16 MiB: uploads 30, 29 and 31, reads 48, 48 and 46, reads into the
caller's memory 10, 16 and 23, both at once 16, 21 and 26; NumPy copies at 3 to 6."""


@dataclass(frozen=True)
class Target:
    """What pays on a device.

    Attributes
    ----------
    hides_latency : bool
        Many invocations hide the latency of loads; otherwise few that loop are quicker.
    cheap_barriers : bool
        A barrier between the subgroups of a workgroup costs no more than its loads.
    fast_shared_memory : bool
        Operands are worth staging in shared memory.
    coalesces_loads : bool
        Neighbouring loads of a subgroup are one transaction.
    vec4_loads : bool
        Loads of four elements by one invocation pay.
    uniform_loads : bool
        Loads at an address that is the same in all invocations are vector loads, and
        generated element-wise kernels loop over several of them.
    limits_registers : bool
        An invocation has few registers, which rows may be held in.
    wide_subgroups : bool
        All subgroups have 64 invocations, as on AMD GPUs before RDNA, whose SIMD units
        have 64 KiB of registers: more than 64 for each invocation leave room for fewer
        than four subgroups, too few to hide the latency of loads.
    broadcasts_registers : bool
        Subgroup broadcasts are as quick as registers, quicker than loads.
    fast_shuffles : bool
        Subgroup shuffles are quicker than shared memory.
    converts_to_float16 : bool
        Conversion to float16, rounding to the nearest, is one instruction.
    rounds_quotients : bool
        Quotients and square roots in float32 are rounded once, as by processors; Vulkan
        allows errors of 2.5 ulp and more.
    divides_int64 : bool
        64-bit integers are divided by an instruction, as by processors; elsewhere it
        takes a hundred, and those of 32 bits twenty.
    fuses_multiply_add : bool
        `fma` in float32 is one instruction that rounds once; Vulkan allows a product
        and a sum.
    flushes_subnormals : bool
        Arithmetic in float32, comparisons too, may take subnormal numbers for 0.
    compiles_row_kernels : bool
        Functions with branches that are called in a loop compile in seconds;
        SwiftShader, a software device without 64-bit integers, takes minutes.
    prefers_composition : bool
        Ops that fuse into generated kernels are quicker than hand-written row kernels.
    shares_processor : bool
        The device runs on the processor that the host needs.
    loop_limit : int or None
        Loop iterations that a shader may make.
    staging : Staging
        Sizes and threads of copies between it and the host.
    """

    hides_latency: bool
    cheap_barriers: bool
    fast_shared_memory: bool
    coalesces_loads: bool
    vec4_loads: bool
    uniform_loads: bool
    limits_registers: bool
    wide_subgroups: bool
    broadcasts_registers: bool
    fast_shuffles: bool
    converts_to_float16: bool
    rounds_quotients: bool
    divides_int64: bool
    fuses_multiply_add: bool
    flushes_subnormals: bool
    compiles_row_kernels: bool
    prefers_composition: bool
    shares_processor: bool
    loop_limit: int | None
    staging: Staging = Staging()


def target_of(info: DeviceInfo) -> Target:
    """Return the target that a device is."""
    software = info.kind == "software"
    return Target(
        hides_latency=not software,
        cheap_barriers=not software,
        fast_shared_memory=not software,
        coalesces_loads=not software,
        vec4_loads=not software,
        uniform_loads=software and info.shader_int64,
        limits_registers=not software,
        wide_subgroups=not software and info.min_subgroup_size >= _WIDE,
        broadcasts_registers=software and info.subgroup_shuffle,
        fast_shuffles=not software and info.subgroup_shuffle,
        converts_to_float16=not software and info.rounds_to_float16,
        rounds_quotients=software,
        divides_int64=software,
        fuses_multiply_add=info.vendor_id in (_AMD, _NVIDIA),
        flushes_subnormals=not software and not info.preserves_subnormals,
        compiles_row_kernels=not software or info.shader_int64,
        prefers_composition=software,
        shares_processor=software,
        loop_limit=LOOP_LIMIT if software else None,
        staging=Staging() if software else CARD_STAGING,
    )
