"""Measure which tile of a product is the fastest on a device, and keep it: ``python -m plugrad_webgpu.tuning``.

Devices that are opened later use what is kept, also in other processes.
"""

# wgpu describes devices in types of which some parts are unknown.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from plugrad.extend import float32
from plugrad_webgpu.algorithms.product import Matrices, multiply_matrices
from plugrad_webgpu.algorithms.tiles import (
    NARROW_MAX_ROWS_OR_COLUMNS,
    NARROW_TILES,
    TILES_BY_NAME,
    problem_key,
    save_tiles,
    supports_tile,
)
from plugrad_webgpu.device.adapters import choose_adapter, required_features, wrap_device
from plugrad_webgpu.memory.copying import full

if TYPE_CHECKING:
    from collections.abc import Iterable

    from plugrad_webgpu.algorithms.tiles import ProductSizes
    from plugrad_webgpu.device.device import Device

TUNING_PROBLEMS: Final[tuple[tuple[int, ProductSizes], ...]] = (
    *((1, (n, n, n)) for n in (64, 128, 256, 512, 1024, 2048, 4096)),
    *((1, (64, n, m)) for n, m in ((1024, 256), (256, 1024), (1024, 1024))),
    *((32, (n, 64, n)) for n in (128, 256, 512)),
    *((1, (pixels, 9 * n, n)) for pixels, n in ((65_536, 32), (16_384, 64), (4096, 128))),
)
"""Pairs of a batch size and the sizes of the products in the batch."""
DEFAULT_REPEATS: Final = 5
"""The number of timed runs of each tile."""


def tune(
    selector: str = "",
    problems: Iterable[tuple[int, ProductSizes]] = TUNING_PROBLEMS,
    repeats: int = DEFAULT_REPEATS,
) -> dict[str, str]:
    """Measure and cache the fastest tile for each kind of problem on a device, and return them.

    Raises:
        BackendUnavailable: there is no such device.
    """
    adapter, _ = choose_adapter(selector)
    device = wrap_device(adapter.request_device_sync(label="plugrad", **required_features(adapter)))
    tiles: dict[str, str] = {}
    for batch, sizes in problems:
        if min(sizes[0], sizes[2]) > NARROW_MAX_ROWS_OR_COLUMNS:
            times = measure_tiles(device, batch, sizes, repeats)
            tiles[problem_key(batch, sizes)] = min(times, key=times.__getitem__)
    save_tiles(adapter.info, tiles)
    return tiles


def measure_tiles(
    device: Device, batch_size: int, product_sizes: ProductSizes, repeats: int
) -> dict[str, float]:
    """Return the minimum seconds that a product takes with each supported tile."""
    rows, depth, columns = product_sizes
    a = Matrices(full(device, (batch_size, rows, depth), 1, float32), batch_size, rows, depth)
    b = Matrices(full(device, (batch_size, depth, columns), 1, float32), batch_size, depth, columns)
    names = [
        name for name in TILES_BY_NAME if name not in NARROW_TILES and supports_tile(device, name)
    ]
    times = dict.fromkeys(names, float("inf"))
    kind = problem_key(batch_size, product_sizes)
    for _ in range(1 + repeats):  # the first one compiles, and is never the fastest
        for name in names:
            device.tiles = {kind: name}
            device.synchronize()
            start = time.perf_counter()
            multiply_matrices(a, b)
            device.synchronize()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


if __name__ == "__main__":
    print(*(f"{kind:24} {name}" for kind, name in tune("".join(sys.argv[1:2])).items()), sep="\n")
