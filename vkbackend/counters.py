"""Counters of Vulkan calls: they prove that a loop neither compiles nor allocates."""

from dataclasses import astuple, dataclass, replace


@dataclass(slots=True)
class Counters:
    """Running totals of one device since it was opened.

    Attributes
    ----------
    dispatches, barriers, submits : int
        Commands recorded in batches, and submissions to any queue.
    resubmits : int
        Submissions among them with commands that an earlier one had recorded.
    pipeline_builds, pipeline_hits : int
        Pipelines created, and those of them that the driver reports as pipeline-cache
        hits; a driver need not report them.
    shader_compiles : int
        GLSL texts compiled, not those found in the disk cache.
    device_allocations : int
        Calls of `vkAllocateMemory`.
    host_reads, host_read_bytes : int
        Reads back to the host.
    uploads, upload_bytes : int
        Writes from the host.
    """

    dispatches: int = 0
    barriers: int = 0
    submits: int = 0
    resubmits: int = 0
    pipeline_builds: int = 0
    pipeline_hits: int = 0
    shader_compiles: int = 0
    device_allocations: int = 0
    host_reads: int = 0
    host_read_bytes: int = 0
    uploads: int = 0
    upload_bytes: int = 0

    def snapshot(self) -> "Counters":
        """Return a copy that no longer changes."""
        return replace(self)

    def __sub__(self, earlier: "Counters") -> "Counters":
        """Return what was counted since the snapshot `earlier`."""
        return Counters(
            *(
                now - then
                for now, then in zip(astuple(self), astuple(earlier), strict=True)
            )
        )
