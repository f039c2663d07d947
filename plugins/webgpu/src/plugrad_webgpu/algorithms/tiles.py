"""The tiles of products: which there are, and which one suits a device and a problem.

`tuning.py` measures them on a machine and keeps what it has found in the user's cache.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugrad.extend import UserCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad_webgpu.memory.buffers import CommandRecorder

ScheduleName = Literal["direct", "joined", "broadcast", "shared"]
"""The algorithms of tiles, each with its own shader template."""
ProductSizes = tuple[int, int, int]
"""The rows, the length of a sum, and the columns of a product."""

BROADCAST_SUBGROUP_SIZE = 8
"""The subgroup size that the schedule "broadcast" needs."""
NARROW_MAX_ROWS_OR_COLUMNS = 8
"""The largest number of rows or columns for which narrow tiles are used: more fill other tiles."""
WIDE_MIN_COLUMNS = 64
"""The least number of columns of a product for the tile "broadcast 64"."""
JOINED_MIN_DEPTH = 512
"""The least number of elements of a sum for the tile "joined": two vectors for each invocation of a workgroup."""
SPLIT_MIN_STEPS = 16
"""The least number of steps, of 4 elements each, in a part of a split sum: fewer do not justify a second dispatch."""
SOFTWARE_SPLIT_MIN_STEPS = 64
"""`SPLIT_MIN_STEPS` on software devices, which have few threads, if all lanes have work."""
MAX_SPLIT_K_PARTS = 8
"""The largest number of parts of a sum, which are written and read again; a very long sum may have more."""
UNLIMITED_SPLITS_MIN_DEPTH = 1024
"""The least number of elements per part in a sum of more than `MAX_SPLIT_K_PARTS` parts."""
LARGE_TILE_MIN_DEPTH = 256
"""The least number of elements of a sum for the largest tile: else the first and the last loads take much time."""
PROCESSOR_COUNT = os.cpu_count() or 1
"""The number of processors on which a software device computes."""
MIN_TILES_PER_PROCESSOR = 2
"""The least number of tiles on a software device for each processor: with fewer, some wait for the last one."""
TILE_CACHE_NAME = "plugrad-webgpu"
"""The name of the cache of measured tiles among plugrad's cache files."""


class Tile(NamedTuple):
    """A tile of a matrix product: the part of the output that a workgroup computes at once, and the algorithm."""

    schedule: ScheduleName
    """The algorithm, which names a shader template."""
    row_blocks: int
    """The rows of the tile, in blocks of four."""
    column_vectors: int
    """The columns of the tile, in vectors of four."""
    min_tiles_to_fill_device: int
    """The number of tiles that keep a device busy."""
    shared_depth_blocks: int = 1
    """The part of the sums that is in shared memory at a time, in blocks of four elements."""
    row_blocks_per_invocation: int = 1
    """The rows that an invocation computes, in blocks of four."""
    column_vectors_per_invocation: int = 1
    """The columns that an invocation computes, in vectors of four."""
    invocations: int = BROADCAST_SUBGROUP_SIZE
    """The number of invocations in a workgroup, unless the schedule is "shared", whose blocks determine it."""
    split_min_steps: int = SPLIT_MIN_STEPS
    """The least number of steps, of four elements each, of every part of a split sum."""

    @property
    def workgroup(self) -> int:
        """The number of invocations in a workgroup."""
        if self.schedule != "shared":
            return self.invocations
        return (
            self.row_blocks
            // self.row_blocks_per_invocation
            * (self.column_vectors // self.column_vectors_per_invocation)
        )

    @property
    def shared_bytes(self) -> int:
        """The bytes of shared memory that a workgroup needs."""
        return (
            64 * self.shared_depth_blocks * (self.row_blocks + self.column_vectors)
            if self.schedule == "shared"
            else 0
        )


TILES_BY_NAME: Final[dict[str, Tile]] = {
    "direct": Tile("direct", 2, 2, 128, split_min_steps=SOFTWARE_SPLIT_MIN_STEPS),
    "narrow": Tile("direct", 2, 2, 32_768, invocations=64),
    "joined": Tile("joined", 1, 2, 1024, invocations=64),
    "broadcast 64": Tile(
        "broadcast",
        8,
        16,
        16,
        column_vectors_per_invocation=2,
        split_min_steps=SOFTWARE_SPLIT_MIN_STEPS,
    ),
    "broadcast 32": Tile("broadcast", 8, 8, 16, split_min_steps=SOFTWARE_SPLIT_MIN_STEPS),
    "shared 128": Tile(
        "shared",
        32,
        32,
        256,
        shared_depth_blocks=8,
        row_blocks_per_invocation=2,
        column_vectors_per_invocation=2,
    ),
    "shared 64": Tile(
        "shared", 16, 16, 256, shared_depth_blocks=4, column_vectors_per_invocation=2
    ),
    "shared 32": Tile("shared", 8, 8, 256, shared_depth_blocks=4),
}
"""The tiles by the name under which they are cached."""


NARROW_TILES: Final = ("narrow", "joined")
"""The names of the GPU tiles for few rows or columns."""


def choose_tile(
    device: CommandRecorder,
    batch_size: int,
    product_sizes: ProductSizes,
    *,
    has_contiguous_sums: bool = False,
) -> str:
    """Return the name of the best tile for the products of a device: a measured one, or an estimate.

    Args:
        device: The device that computes the product.
        batch_size: The number of products.
        product_sizes: The sizes of each.
        has_contiguous_sums: Whether the larger operand has the elements of a sum side by side.
    """
    rows, depth, columns = product_sizes
    if min(rows, columns) <= NARROW_MAX_ROWS_OR_COLUMNS:
        if device.is_software:
            return "direct"
        return "joined" if has_contiguous_sums and depth >= JOINED_MIN_DEPTH else "narrow"
    measured = device.tiles.get(problem_key(batch_size, product_sizes)) if device.tiles else None
    if measured is not None and supports_tile(device, measured):
        return measured
    if not device.is_software:
        return _choose_shared_memory_tile(device, batch_size, product_sizes)
    if not supports_tile(device, "broadcast 32"):
        return "direct"
    if -columns % WIDE_MIN_COLUMNS > columns // 8:  # too many of the columns would be in vain
        return "broadcast 32"
    tile = TILES_BY_NAME["broadcast 64"]
    least = min(tile.min_tiles_to_fill_device, MIN_TILES_PER_PROCESSOR * PROCESSOR_COUNT)
    return (
        "broadcast 64"
        if batch_size * _count_tiles(tile, product_sizes) >= least
        else "broadcast 32"
    )


def _choose_shared_memory_tile(
    device: CommandRecorder, batch_size: int, product_sizes: ProductSizes
) -> str:
    """Return the name of the largest tile of which a product has enough to occupy a GPU."""
    depth = product_sizes[1]
    splits = min(
        max(depth // (4 * SPLIT_MIN_STEPS), 1),
        max(MAX_SPLIT_K_PARTS, depth // UNLIMITED_SPLITS_MIN_DEPTH),
    )
    is_long = depth >= LARGE_TILE_MIN_DEPTH
    for name, parts in (("shared 128", int(is_long)), ("shared 64", splits)):
        is_busy = (
            batch_size * parts * _count_tiles(TILES_BY_NAME[name], product_sizes)
            >= TILES_BY_NAME[name].min_tiles_to_fill_device
        )
        if is_busy and supports_tile(device, name):
            return name
    return "shared 32"


def _count_tiles(tile: Tile, product_sizes: ProductSizes) -> int:
    """Return how many whole tiles fit in a product."""
    return (product_sizes[0] // (4 * tile.row_blocks)) * (
        product_sizes[2] // (4 * tile.column_vectors)
    )


def supports_tile(device: CommandRecorder, tile_name: str) -> bool:
    """Return whether a device supports a tile."""
    tile = TILES_BY_NAME[tile_name]
    if tile.schedule == "broadcast":
        return device.subgroup_size == BROADCAST_SUBGROUP_SIZE
    return tile.shared_bytes <= device.shared_bytes


def problem_key(batch_size: int, product_sizes: ProductSizes) -> str:
    """Return the key of products of about these sizes in the cache of measured tiles.

    >>> problem_key(1, (500, 70, 512))
    '1 512 128 512'
    """
    return " ".join(str(1 << max(n - 1, 0).bit_length()) for n in (batch_size, *product_sizes))


def load_tiles(adapter_info: Mapping[str, Any]) -> dict[str, str]:
    """Return the cached names of the fastest tiles for an adapter, by `problem_key`."""
    content = UserCache(TILE_CACHE_NAME).read(_adapter_key(adapter_info))
    found: dict[str, str] = json.loads(content) if content is not None else {}
    return {kind: name for kind, name in found.items() if name in TILES_BY_NAME}


def save_tiles(adapter_info: Mapping[str, Any], tile_names: Mapping[str, str]) -> None:
    """Store the names of the fastest tiles for an adapter, by `problem_key`, in the cache, beside earlier ones."""
    UserCache(TILE_CACHE_NAME).write(
        _adapter_key(adapter_info), json.dumps({**load_tiles(adapter_info), **tile_names}).encode()
    )


def _adapter_key(adapter_info: Mapping[str, Any]) -> str:
    """Return a cache key that identifies an adapter and its driver."""
    names = ("vendor", "device", "description", "backend_type")
    return "tiles: " + ", ".join(str(adapter_info[name]) for name in names)
