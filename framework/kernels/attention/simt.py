"""Attention without tensor cores in large register tiles: tiles, and when they pay."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import ceil_div
from ..gpu_model import model_of

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_HEAD = 256
"""Largest head size that the tiles have registers for."""

FEW_MOST_HEAD = 128
"""Largest head size of `FEW_TILES`."""

QUAD = 4
"""Elements of a vec4."""


class SimtTile(NamedTuple):
    """Tile of a workgroup: block of one side, step over the other.

    Attributes
    ----------
    invocations, lanes : int
        Of a workgroup, and of a team.
    rows, columns : int
        Own vectors of a team, and those of the other side of an invocation.
    slab : int
        Elements of vectors, or vectors, of a stage in shared memory.
    """

    invocations: int
    lanes: int
    rows: int = 8
    columns: int = 8
    slab: int = 8

    @property
    def block(self) -> int:
        """Own vectors of a workgroup."""
        return self.invocations // self.lanes * self.rows

    @property
    def span(self) -> int:
        """Vectors of the other side per step."""
        return self.lanes * self.columns

    def shared_memory(self, head: int) -> int:
        """Return its shared memory in bytes, for the longest vectors."""
        lines = self.block // QUAD
        across = max(self.span // QUAD, ceil_div(head, QUAD * self.lanes) * self.lanes)
        stages = 2 * self.slab * (lines + 1 + across + 1)
        return 16 * (self.span * lines + stages + 2 * lines)

    def fits(self, gpu: DeviceInfo, head: int) -> bool:
        """Return whether a device has its shared memory and invocations."""
        return (
            self.shared_memory(head) <= gpu.max_shared_memory
            and self.invocations <= gpu.max_workgroup_invocations
        )

    def constants(self) -> dict[str, int]:
        """Return the specialization constants of the tile."""
        return dict(zip(("LOCAL_X", "LANES", "ROWS", "TILE", "SLAB"), self))


KERNELS = {
    "attention/flash": "attention/flash_simt",
    "attention/flash_dq": "attention/flash_simt_dq",
    "attention/flash_dkv": "attention/flash_simt_dkv",
}
"""Kernels in large register tiles, by the kernel in small ones."""

USED = dict.fromkeys(KERNELS, True)
"""Whether a kernel in large register tiles is used in place of that in small ones."""

CANDIDATES = (
    SimtTile(128, 16),
    SimtTile(128, 16, slab=4),
    SimtTile(128, 16, columns=4),
    SimtTile(128, 8),
    SimtTile(64, 8),
    SimtTile(256, 16, columns=4),
    SimtTile(256, 16, columns=4, slab=4),
    SimtTile(256, 16, rows=4),
    SimtTile(256, 32, columns=4),
    SimtTile(256, 32, columns=4, slab=4),
)
"""Tiles to time."""

_BY_QUERIES = {
    96: SimtTile(128, 8),
    128: SimtTile(128, 16),
    MOST_HEAD: SimtTile(128, 16, columns=4),
}

TILES: dict[str, dict[int, SimtTile]] = {
    "attention/flash": dict(_BY_QUERIES),
    "attention/flash_dq": dict(_BY_QUERIES),
    "attention/flash_dkv": {
        128: SimtTile(128, 16),
        MOST_HEAD: SimtTile(256, 32, columns=4, slab=4),
    },
}
"""By the kernel and the largest head size; estimates above 128: an invocation has about
64 sums of a result and 64 of a tile, or 128 and 32.
`python -m vkbackend.tools.bench.attention_tiles` times others."""


FEW_TILES = (SimtTile(128, 16), SimtTile(128, 16, rows=4))
"""Tiles of fewer own vectors, where those of `TILES` would leave multiprocessors idle;
for heads of up to `FEW_MOST_HEAD` elements."""


def simt_tile(
    gpu: DeviceInfo, kernel: str, head: int, own: int, heads: int
) -> SimtTile | None:
    """Return the tile of a kernel, or None where it would not pay or there is no room.

    Parameters
    ----------
    gpu : DeviceInfo
    kernel : str
        The kernel in small tiles.
    head : int
        Elements of the longest vectors.
    own : int
        Vectors of the side that workgroups divide.
    heads : int
        Heads of all of the batch.
    """
    pays = gpu.target.fast_shared_memory and not gpu.target.wide_subgroups
    if not USED[kernel] or not pays or head > MOST_HEAD:
        return None
    tile = next(tile for most, tile in TILES[kernel].items() if head <= most)
    for smaller in FEW_TILES if head <= FEW_MOST_HEAD else ():
        groups = ceil_div(own, tile.block) * heads
        if groups < model_of(gpu).multiprocessors and smaller.block < tile.block:
            tile = smaller
    return tile if tile.fits(gpu, head) else None
