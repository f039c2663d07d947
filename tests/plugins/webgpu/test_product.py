"""Products by every schedule, also by those that this device would not choose."""

import numpy as np
import pytest

from plugrad.extend import float32, sliding_window
from plugrad.kernels import convolution, convolution3d, fused, linalg
from plugrad_webgpu.algorithms import product
from plugrad_webgpu.algorithms.product import Matrices, multiply_matrices
from plugrad_webgpu.algorithms.tiles import (
    BROADCAST_SUBGROUP_SIZE,
    TILES_BY_NAME,
    choose_tile,
    load_tiles,
    problem_key,
    save_tiles,
)
from plugrad_webgpu.tuning import tune

SOFTWARE_TILES = ["direct", "broadcast 32", "broadcast 64"]
GPU_TILES = ["narrow", "joined", "shared 32", "shared 64"]
ODD_SIZES = (33, 17, 29)
EVEN_SIZES = (36, 20, 40)


@pytest.fixture
def use_tile(monkeypatch, run):
    def use(name):
        if (
            TILES_BY_NAME[name].schedule == "broadcast"
            and run.device.subgroup_size != BROADCAST_SUBGROUP_SIZE
        ):
            pytest.skip("the subgroups of this device have another size")
        monkeypatch.setattr(product, "choose_tile", lambda *_, **__: name)

    return use


def run_product(run, a, b, turn_a=False, turn_b=False):
    """Return the products of batches of matrices, which are stored transposed if requested."""

    def up(values, is_turned):
        stored = np.ascontiguousarray(values.swapaxes(1, 2) if is_turned else values)
        return Matrices(run.to_device(stored), *values.shape, is_turned)

    return run.to_host(multiply_matrices(up(a, turn_a), up(b, turn_b)))


def random_float32(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("sizes", [ODD_SIZES, EVEN_SIZES], ids=str)
@pytest.mark.parametrize("name", SOFTWARE_TILES + GPU_TILES)
def test_transposed_operands(run, rng, use_tile, name, sizes, turn_a, turn_b):
    use_tile(name)
    rows, depth, columns = sizes
    a, b = random_float32(rng, 1, rows, depth), random_float32(rng, 1, depth, columns)
    np.testing.assert_allclose(run_product(run, a, b, turn_a, turn_b), a @ b, atol=1e-4)


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (1, 9, 2), (2, 8, 40), (3, 4, 1), (7, 6, 5), (16, 12, 12), (65, 24, 129)],
    ids=str,
)
@pytest.mark.parametrize("name", [*SOFTWARE_TILES, "shared 32"])
def test_sizes_that_do_not_fill_tiles(run, rng, use_tile, name, sizes):
    use_tile(name)
    rows, depth, columns = sizes
    a, b = random_float32(rng, 1, rows, depth), random_float32(rng, 1, depth, columns)
    np.testing.assert_allclose(run_product(run, a, b), a @ b, atol=1e-4)


@pytest.mark.parametrize("batches", [(3, 3), (1, 3), (3, 1), (0, 0)], ids=str)
@pytest.mark.parametrize("name", [*SOFTWARE_TILES, "shared 32"])
def test_batches(run, rng, use_tile, name, batches):
    use_tile(name)
    a, b = random_float32(rng, batches[0], 12, 20), random_float32(rng, batches[1], 20, 36)
    np.testing.assert_allclose(run_product(run, a, b), a @ b, atol=1e-4)


@pytest.mark.parametrize("name", [*SOFTWARE_TILES, "shared 32"])
def test_sums_in_parts(run, rng, use_tile, name):
    use_tile(name)
    a, b = random_float32(rng, 1, 12, 1029), random_float32(rng, 1, 1029, 36)
    np.testing.assert_allclose(run_product(run, a, b), a @ b, atol=1e-3)


@pytest.mark.parametrize("name", [*SOFTWARE_TILES, "shared 32"])
def test_empty_sums(run, rng, use_tile, name):
    use_tile(name)
    a, b = random_float32(rng, 2, 12, 0), random_float32(rng, 2, 0, 36)
    np.testing.assert_array_equal(run_product(run, a, b), np.zeros((2, 12, 36), np.float32))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32])
@pytest.mark.parametrize("name", [*SOFTWARE_TILES, "shared 32"])
def test_integers(run, rng, use_tile, name, dtype):
    use_tile(name)
    a, b = (rng.integers(0, 2**32, s, np.uint32).astype(dtype) for s in ((1, 13, 9), (1, 9, 36)))
    np.testing.assert_array_equal(run_product(run, a, b), a @ b)


@pytest.mark.parametrize("depth", [6, 8])
@pytest.mark.parametrize("name", [*SOFTWARE_TILES, "shared 32"])
def test_special_values_stay_in_their_rows_and_columns(run, rng, use_tile, name, depth):
    use_tile(name)
    a, b = random_float32(rng, 1, 11, depth), random_float32(rng, 1, depth, 38)
    a[0, 10, 5], a[0, 3, 0], b[0, 2, 37] = np.nan, np.inf, -np.inf
    b[0, 5, 30] = np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    np.testing.assert_allclose(run_product(run, a, b), expected, atol=1e-4)


def test_the_largest_tile(run, rng, use_tile):
    use_tile("shared 128")
    a, b = random_float32(rng, 1, 132, 20), random_float32(rng, 1, 20, 140)
    np.testing.assert_allclose(run_product(run, a, b), a @ b, atol=1e-4)


def test_one_column_takes_one_column_of_work(run, rng):
    a, b = random_float32(rng, 37, 21), random_float32(rng, 21, 1)
    np.testing.assert_allclose(run(linalg.matmul, a, b), a @ b, atol=1e-4)
    turned = run(linalg.matmul, np.ascontiguousarray(a.T), b, transpose_a=True)
    np.testing.assert_allclose(turned, a @ b, atol=1e-4)


@pytest.mark.parametrize("name", GPU_TILES)
@pytest.mark.parametrize("channels", [(3, 12), (8, 16)])
def test_convolutions_by_every_schedule(run, rng, use_tile, name, channels):
    x = random_float32(rng, 2, 6, 7, channels[0])
    w = random_float32(rng, 3, 2, *channels)
    attrs = {"strides": (2, 1), "pad": "same"}
    y = run(convolution.conv2d, x, w, **attrs)
    dx = run(convolution.conv2d_input_gradient, y, w, input_shape=x.shape, **attrs)
    dw = run(convolution.conv2d_filter_gradient, x, y, filter_shape=w.shape, **attrs)
    use_tile(name)
    others = (
        run(convolution.conv2d, x, w, **attrs),
        run(convolution.conv2d_input_gradient, y, w, input_shape=x.shape, **attrs),
        run(convolution.conv2d_filter_gradient, x, y, filter_shape=w.shape, **attrs),
    )
    for expected, found in zip((y, dx, dw), others, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-3)


def test_patches_take_no_memory(run, rng):
    x, w = (
        run.to_device(random_float32(rng, 1, 64, 64, 64)),
        run.to_device(random_float32(rng, 3, 3, 64, 8)),
    )
    pool = run.device.pool
    run.device.synchronize()
    pool.trim()
    created = pool.usage.created_buffers
    y = run.call(convolution.conv2d, x, w, strides=(1, 1), pad="same")
    assert y.shape == (1, 64, 64, 8)
    assert pool.usage.created_buffers - created <= 2  # the result, or its parts and their sum


def test_cells_beyond_all_sides_of_a_small_image(run):
    x = np.ones((1, 1, 2, 1, 3), np.float32)
    w = np.ones((3, 3, 3, 3, 1), np.float32)
    y = run(convolution3d.conv3d, x, w, strides=(1, 1, 1), pad="same")
    np.testing.assert_array_equal(y, np.full((1, 1, 2, 1, 1), 6, np.float32))


def test_every_tile_loads_its_blocks_at_once():
    for tile in TILES_BY_NAME.values():
        if tile.schedule == "shared":
            longest = max(tile.row_blocks, tile.column_vectors)
            assert tile.shared_depth_blocks * longest <= tile.workgroup
            # Every adapter has 16 KiB, which the largest tile need not fit: others take its place.
            assert tile is TILES_BY_NAME["shared 128"] or tile.shared_bytes <= 16_384
            # Neighbours of 32 are 4 by 8.
            assert tile.row_blocks // tile.row_blocks_per_invocation % 4 == 0
            assert tile.column_vectors // tile.column_vectors_per_invocation % 8 == 0


@pytest.mark.parametrize("loads_64_bit_words", [True, False])
@pytest.mark.parametrize("subgroup", [BROADCAST_SUBGROUP_SIZE, 0])
def test_64_bit_integers(run, rng, monkeypatch, subgroup, loads_64_bit_words):
    device = run.device
    if subgroup > device.subgroup_size or (loads_64_bit_words and not device.loads_64_bit_words):
        pytest.skip("this device has no such subgroups, or no words of 64 bits")
    monkeypatch.setattr(device, "_subgroup", subgroup)
    monkeypatch.setattr(device, "loads_64_bit_words", loads_64_bit_words)
    sizes = [(1, 3, 2), (8, 9, 8), (9, 70, 35), (16, 400, 13), (3, 5, 70), (20, 16, 1), (9, 0, 9)]
    for number, (rows, depth, columns) in enumerate(sizes):
        a, b = (
            rng.integers(-(2**63), 2**63 - 1, s, np.int64)
            for s in ((1 + number % 2, rows, depth), (2, depth, columns))
        )
        a[:, :, :1], b[:, :1] = 2**32 - 1, -1
        for turn_a, turn_b in ((False, False), (True, False), (False, True)):
            np.testing.assert_array_equal(run_product(run, a, b, turn_a, turn_b), a @ b)


# --- what is done before a product is stored


@pytest.fixture
def launched_plans(run, monkeypatch):
    """A list of the plans that the device launches."""
    assert run.device.subgroup_size >= 0  # a device is asked by a dispatch, once
    plans = []
    launch = run.device.launch

    def noted(plan, *inputs):
        plans.append(plan)
        return launch(plan, *inputs)

    monkeypatch.setattr(run.device, "launch", noted)
    return plans


@pytest.mark.parametrize(
    ("activation", "biases", "columns"),
    [
        ("linear", 27, 27),
        ("relu", 1, 36),
        ("leakyrelu", 36, 36),
        ("prelu", 0, 27),
        ("prelu", 36, 36),
    ],
)
def test_bias_and_activation_take_no_dispatch_of_their_own(
    run, rng, launched_plans, activation, biases, columns
):
    a, b = random_float32(rng, 14, 20), random_float32(rng, 20, columns)
    bias = random_float32(rng, biases) if biases else None
    weights = random_float32(rng, columns) if activation == "prelu" else None
    attrs = {"activation": activation, "leakyrelu_alpha": 0.25, "transpose_a": False}
    arrays = [None if x is None else run.to_device(x) for x in (a, b, bias, weights)]
    launched_plans.clear()  # an array of one element is filled
    y = run.call(fused.matmul, *arrays, transpose_b=False, **attrs)
    assert len(launched_plans) == 1
    expected = a @ b + (0 if bias is None else bias)
    slopes = {"linear": 1, "relu": 0, "leakyrelu": 0.25, "prelu": weights}
    expected = np.where(expected > 0, expected, slopes[activation] * expected)
    np.testing.assert_allclose(run.to_host(y), expected, atol=1e-4)


@pytest.mark.parametrize(("rows", "depth", "columns"), [(12, 2000, 36), (9, 20, 1), (1, 20, 1)])
def test_bias_of_products_that_are_finished_later(run, rng, rows, depth, columns):
    a, b, bias = (
        random_float32(rng, rows, depth),
        random_float32(rng, depth, columns),
        random_float32(rng, columns),
    )
    arrays = [run.to_device(x) for x in (a, b, bias)]
    y = run.call(fused.matmul, *arrays, None, activation="relu")
    np.testing.assert_allclose(run.to_host(y), np.maximum(a @ b + bias, 0), atol=1e-3)


def test_bias_of_channels(run, rng):
    x, w, bias = (
        random_float32(rng, 2, 5, 6, 3),
        random_float32(rng, 2, 2, 3, 12),
        random_float32(rng, 12),
    )
    plain = run(convolution.conv2d, x, w, strides=(1, 1), pad="valid")
    arrays = [run.to_device(each) for each in (x, w, bias)]
    attrs = {"strides": (1, 1), "pad": "valid", "activation": "relu"}
    y = run.call(fused.conv2d, *arrays, None, **attrs)
    np.testing.assert_allclose(run.to_host(y), np.maximum(plain + bias, 0), atol=1e-4)


# --- the choice of a tile

ADAPTER_INFO = {"vendor": "a", "device": "b", "description": "c", "backend_type": "d", "other": 1}


@pytest.fixture
def empty_user_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))


@pytest.mark.usefixtures("empty_user_cache")
def test_tiles_are_kept_for_an_adapter():
    assert load_tiles(ADAPTER_INFO) == {}
    save_tiles(ADAPTER_INFO, {"1 16 16 16": "direct", "1 32 32 32": "a tile of another version"})
    save_tiles(ADAPTER_INFO, {"1 64 64 64": "shared 32"})
    assert load_tiles(ADAPTER_INFO) == {"1 16 16 16": "direct", "1 64 64 64": "shared 32"}
    assert load_tiles(ADAPTER_INFO | {"description": "another driver"}) == {}


@pytest.mark.usefixtures("empty_user_cache")
def test_tuning_measures_and_keeps_the_fastest_tile(make_runner, rng, monkeypatch):
    monkeypatch.delitem(TILES_BY_NAME, "shared 128")  # a software device compiles it for seconds
    monkeypatch.delitem(TILES_BY_NAME, "shared 64")
    problem = 1, (24, 20, 28)
    tiles = tune(problems=[problem, (1, (1, 9, 9))], repeats=1)
    assert list(tiles) == [problem_key(*problem)]
    runner = make_runner()
    assert choose_tile(runner.device, *problem) == tiles[problem_key(*problem)]
    a, b = random_float32(rng, 1, 24, 20), random_float32(rng, 1, 20, 28)
    np.testing.assert_allclose(run_product(runner, a, b), a @ b, atol=1e-4)


@pytest.mark.parametrize(
    ("batch", "sizes", "expected"),
    [
        (1, (8, 512, 512), "narrow"),
        (1, (64, 64, 64), "shared 32"),
        (1, (64, 4096, 4096), "shared 64"),
        (16, (512, 64, 512), "shared 64"),  # short sums
        (16, (512, 256, 512), "shared 128"),
        (1, (4096, 768, 768), "shared 64"),  # too few large tiles
        (1, (576, 100_352, 64), "shared 64"),  # a long sum, which may have many parts
        (1, (1024, 64, 1024), "shared 64"),
        (1, (4096, 4096, 4096), "shared 128"),
    ],
    ids=str,
)
def test_tiles_of_gpus(run, monkeypatch, batch, sizes, expected):
    monkeypatch.setattr(run.device, "is_software", False)
    monkeypatch.setattr(run.device, "tiles", {})
    assert choose_tile(run.device, batch, sizes) == expected


def test_runs_of_a_sum_count_when_a_tile_is_chosen(run, rng, monkeypatch):
    """The gradient of a filter adds up one segment for each output row, so its sums are longer than one segment."""
    chosen = []

    def choose_and_note(device, batch, sizes, **how):
        chosen.append(sizes)
        return choose_tile(device, batch, sizes, **how)

    monkeypatch.setattr(product, "choose_tile", choose_and_note)
    window = sliding_window((12, 10), size=(3, 3), strides=(1, 1), dilations=(1, 1), padding="same")
    images = [random_float32(rng, 2, 12, 10, 8), random_float32(rng, 2, 12, 10, 16)]
    run(convolution.conv2d_filter_gradient, *images, filter_shape=(3, 3, 8, 16), window=window)
    assert chosen == [(72, 240, 16)]


def count_parts(tile, rows, depth, columns):
    """Return into how many parts the sums of a product are divided."""
    source = product._matrix_source(rows, depth, False)
    sizes, whole = (rows, depth, columns), (False, False)
    no_epilogue = product._EpilogueSource()
    step = product._product_plan(
        TILES_BY_NAME[tile], source, float32, (1, 1), sizes, whole, no_epilogue, False
    )
    return step.shape[0]


def test_sums_are_split_where_a_gpu_has_more_room_than_tiles():
    """With 144 tiles for 256 workgroups, each sum has two parts; with 256 tiles, one."""
    assert [count_parts("shared 64", rows, 4096, 768) for rows in (768, 1408)] == [2, 1]


@pytest.mark.parametrize(
    ("tile", "rows", "depth", "columns", "parts"),
    [
        ("broadcast 32", 64, 256, 128, 1),
        ("broadcast 32", 64, 2048, 128, 2),
        ("broadcast 64", 64, 2048, 128, 2),  # as many, so that the bits are the same
        ("direct", 64, 128, 10, 1),  # 16 tiles, for the lanes of two threads
        ("direct", 64, 1024, 10, 4),
        ("direct", 1, 784, 10, 12),  # two tiles, so that six of eight lanes would do nothing
        ("narrow", 64, 128, 10, 2),
    ],
)
def test_sums_are_split_on_software_devices_if_long_or_if_lanes_are_idle(
    tile, rows, depth, columns, parts
):
    assert count_parts(tile, rows, depth, columns) == parts


def test_devices_with_little_shared_memory_take_smaller_tiles(run, monkeypatch):
    monkeypatch.setattr(run.device, "is_software", False)
    monkeypatch.setattr(run.device, "shared_bytes", 16_384)
    assert choose_tile(run.device, 1, (4096, 4096, 4096)) == "shared 64"


def test_long_sums_of_few_rows_are_shared_by_a_workgroup(run, monkeypatch):
    monkeypatch.setattr(run.device, "is_software", False)
    assert choose_tile(run.device, 1, (1, 512, 512), has_contiguous_sums=True) == "joined"
    assert choose_tile(run.device, 1, (512, 512, 8), has_contiguous_sums=True) == "joined"
    assert choose_tile(run.device, 1, (1, 100, 512), has_contiguous_sums=True) == "narrow"


@pytest.mark.parametrize(
    ("sizes", "processors", "subgroup", "expected"),
    [
        ((512, 512, 512), 64, BROADCAST_SUBGROUP_SIZE, "broadcast 64"),
        ((64, 784, 256), 4, BROADCAST_SUBGROUP_SIZE, "broadcast 64"),
        ((64, 784, 256), 5, BROADCAST_SUBGROUP_SIZE, "broadcast 32"),  # too few of the others
        ((4096, 64, 96), 4, BROADCAST_SUBGROUP_SIZE, "broadcast 32"),
        ((512, 512, 512), 4, 4, "direct"),
    ],
    ids=str,
)
def test_tiles_of_software_devices(run, monkeypatch, sizes, processors, subgroup, expected):
    monkeypatch.setattr("plugrad_webgpu.algorithms.tiles.PROCESSOR_COUNT", processors)
    monkeypatch.setattr(run.device, "is_software", True)
    monkeypatch.setattr(run.device, "tiles", {})
    monkeypatch.setattr(run.device, "_subgroup", subgroup)
    assert choose_tile(run.device, 1, sizes) == expected


def test_a_measured_tile_that_is_impossible_is_not_used(run, monkeypatch):
    monkeypatch.setattr(run.device, "tiles", {problem_key(1, (64, 64, 64)): "broadcast 32"})
    monkeypatch.setattr(run.device, "_subgroup", 4)
    monkeypatch.setattr(run.device, "is_software", True)
    assert choose_tile(run.device, 1, (64, 64, 64)) == "direct"
