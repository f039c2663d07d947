"""The tiles of products: which there are, and which one suits a device and a problem.

`tuning.py` measures them on a machine and keeps what it has found in the user's cache.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from plugrad.extend import UserCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from plugrad_webgpu.memory.buffers import CommandRecorder

Schedule = Literal["direct", "broadcast", "shared"]
Sizes = tuple[int, int, int]
"""The rows, the length of a sum, and the columns of a product."""

BROADCAST_SUBGROUP_SIZE = 8  # invocations of the schedule "broadcast"
NARROW_MAX_SIZE = 8  # rows or columns: fewer do not fill the tiles of a workgroup
WIDE_MIN_COLUMNS = 64  # columns of the tile "broadcast 64"
CACHE_NAME = "plugrad-webgpu"


class Tile(NamedTuple):
    """The part of the output that an invocation ("direct") or a workgroup computes, and how."""

    schedule: Schedule
    rows: int
    """In blocks of four."""
    vectors: int
    """Four columns each."""
    busy: int
    """As many tiles keep a device busy."""
    steps: int = 1
    """Blocks along the sums that are in shared memory at a time."""
    down: int = 1
    """Blocks of rows of one invocation."""
    across: int = 1
    """Vectors of columns of one invocation."""

    @property
    def workgroup(self) -> int:
        """The invocations of a workgroup."""
        if self.schedule != "shared":
            return BROADCAST_SUBGROUP_SIZE
        return self.rows // self.down * (self.vectors // self.across)


TILES: Final[dict[str, Tile]] = {
    "direct": Tile("direct", 2, 2, 128),
    "broadcast 64": Tile("broadcast", 8, 16, 16, across=2),
    "broadcast 32": Tile("broadcast", 8, 8, 16),
    "shared 128": Tile("shared", 32, 32, 256, steps=4, down=2, across=2),
    "shared 64": Tile("shared", 16, 16, 256, steps=4),
    "shared 32": Tile("shared", 8, 8, 256, steps=8),
}


def choose_tile(device: CommandRecorder, batch: int, sizes: Sizes) -> str:
    """Return the name of the tile that suits a device and a problem: a measured one, or a likely one."""
    rows, _, columns = sizes
    if min(rows, columns) <= NARROW_MAX_SIZE:
        return "direct"
    measured = device.tiles.get(problem_kind(batch, sizes)) if device.tiles else None
    if measured is not None and is_possible(device, measured):
        return measured
    if not device.is_software:
        names = ("shared 128", "shared 64", "shared 32")
    elif not is_possible(device, "broadcast 32"):
        return "direct"
    elif -columns % WIDE_MIN_COLUMNS <= columns // 8:
        names = ("broadcast 64", "broadcast 32")
    else:  # too many of the columns would be computed in vain
        return "broadcast 32"
    for name in names[:-1]:
        tile = TILES[name]
        if batch * (rows // (4 * tile.rows)) * (columns // (4 * tile.vectors)) >= tile.busy:
            return name
    return names[-1]


def is_possible(device: CommandRecorder, name: str) -> bool:
    """Return whether a device can compute by a tile."""
    return TILES[name].schedule != "broadcast" or device.subgroup == BROADCAST_SUBGROUP_SIZE


def problem_kind(batch: int, sizes: Sizes) -> str:
    """Return the key that problems of about these sizes share in the table of tiles.

    >>> problem_kind(1, (500, 70, 512))
    '1 512 128 512'
    """
    return " ".join(str(1 << max(n - 1, 0).bit_length()) for n in (batch, *sizes))


def load_tiles(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the measured tiles for an adapter, by the kind of problem; what the cache does not have is absent."""
    content = UserCache(CACHE_NAME).read(_adapter_key(info))
    found: dict[str, str] = json.loads(content) if content is not None else {}
    return {kind: name for kind, name in found.items() if name in TILES}


def save_tiles(info: Mapping[str, Any], tiles: Mapping[str, str]) -> None:
    """Keep measured tiles for an adapter, in addition to those that are kept."""
    UserCache(CACHE_NAME).write(
        _adapter_key(info), json.dumps({**load_tiles(info), **tiles}).encode()
    )


def _adapter_key(info: Mapping[str, Any]) -> str:
    """Return a cache key that identifies an adapter and its driver."""
    names = ("vendor", "device", "description", "backend_type")
    return "tiles: " + ", ".join(str(info[name]) for name in names)
