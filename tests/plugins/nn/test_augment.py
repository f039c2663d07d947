"""Random changes of images against NumPy: what they are allowed to be, how often, and the same on all backends."""

import functools

import numpy as np
import pytest
import scipy.ndimage
import scipy.stats

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from plugrad.testing import check_gradient

augment = nn.augment


@pytest.fixture
def images(rng):
    return rng.random((6, 5, 7, 3)).astype(np.float32)


def test_flips_are_mirrors(backend, images):
    found = augment.flip(images, seed=0, vertical=True).numpy()
    mirrors = [images, images[:, :, ::-1], images[:, ::-1], images[:, ::-1, ::-1]]
    which = [[np.array_equal(y, m[i]) for m in mirrors] for i, y in enumerate(found)]
    assert np.sum(which, axis=1).tolist() == [1] * 6
    assert np.sum(which, axis=0).max() < 6
    many = plugrad.broadcast_to(plugrad.asarray([[[[0], [1]]]], dtype="int32"), (2000, 1, 2, 1))
    share = augment.flip(many, seed=1).numpy()[:, 0, 0, 0].mean()
    assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(2000)


def test_crops_are_parts(backend, images):
    found = augment.crop(images, (3, 4), padding=1, seed=0).numpy()
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    places = []
    for x, y in zip(padded, found, strict=True):
        at = [
            (i, j) for i in range(5) for j in range(6) if np.array_equal(x[i : i + 3, j : j + 4], y)
        ]
        assert len(at) == 1
        places += at
    assert len(set(places)) > 2
    whole = augment.crop(images.astype(np.int32), (5, 7), seed=0)
    assert whole.dtype == plugrad.int32
    np.testing.assert_array_equal(whole, images.astype(np.int32))
    starts = augment.crop(
        np.tile(np.arange(4.0, dtype="f4")[:, None, None], (900, 1, 1, 1)), (1, 1)
    )
    counts = np.bincount(starts.numpy().astype(int).ravel(), minlength=4)
    assert scipy.stats.chisquare(counts).pvalue > 1e-6


def test_augmentation_rotates_images(backend, rng):
    image = np.zeros((1, 9, 9, 1), np.float32)
    image[0, 4, 7] = 1  # right of the middle
    found = augment.rotate(np.repeat(image, 50, 0), 90, seed=0).numpy()[..., 0]
    ys, xs = np.mgrid[:9, :9]
    mass = found.sum((1, 2))
    x, y = (found * (xs - 4)).sum((1, 2)) / mass, (found * (ys - 4)).sum((1, 2)) / mass
    np.testing.assert_allclose(np.hypot(x, y), 3, atol=0.15)
    angles = np.degrees(np.arctan2(y, x))
    assert np.abs(angles).max() < 93
    assert angles.min() < -45
    assert angles.max() > 45
    np.testing.assert_allclose(augment.rotate(image, 0, seed=0), image, atol=1e-6)
    corners = augment.rotate(np.ones((9, 8, 8, 1), np.float32), 45, seed=2, fill_value=5.0)
    assert corners.numpy()[:, 0, 0].max() > 4
    assert corners.numpy()[:, 3:5, 3:5].max() == pytest.approx(1)


@pytest.mark.parametrize("fill_value", [0.0, 5.0])
def test_rotations_match_scipy(fill_value, backend, images):
    found = augment.rotate(images, 60, seed=4, fill_value=fill_value).numpy()
    largest = np.radians(60)
    angles = plugrad.random.Generator(4).uniform((len(images),), -largest, largest).numpy()
    for image, angle, mine in zip(images, np.degrees(angles), found, strict=True):
        expected = scipy.ndimage.rotate(
            image, angle, reshape=False, order=1, mode="grid-constant", cval=fill_value
        )
        np.testing.assert_allclose(mine, expected, atol=2e-5)


def to_grayscale(x):
    return (x @ np.array([0.2989, 0.587, 0.114]))[..., None]


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation"])
def test_augmentation_adjusts_colours(name, backend, rng):
    images = rng.uniform(0.3, 0.6, (6, 4, 5, 3)).astype(np.float32)
    found = augment.adjust_colors(images, **{name: 0.25}, seed=0).numpy()
    x = images.astype(np.float64)
    around = {"brightness": 0 * x, "contrast": to_grayscale(x).mean((1, 2, 3), keepdims=True)}
    around = around.get(name, to_grayscale(x)) + 0 * x
    factors = (found - around) / (x - around)
    reliable = np.abs(x - around) > 0.05
    for factor, chosen in zip(factors, reliable, strict=True):
        np.testing.assert_allclose(factor[chosen], np.median(factor[chosen]), atol=1e-4)
    middle = [np.median(f[c]) for f, c in zip(factors, reliable, strict=True)]
    assert 0.75 <= min(middle) < max(middle) <= 1.25
    assert augment.adjust_colors(images, **{name: 50.0}, seed=0).numpy().max() <= 1


def test_colours_of_one_channel(backend, rng):
    images = rng.random((2, 3, 3, 1)).astype(np.float32)
    assert np.array_equal(augment.adjust_colors(images, saturation=0.5, seed=0), images)
    found = augment.adjust_colors(images, contrast=0.5, seed=0).numpy()
    np.testing.assert_allclose(found.mean((1, 2)), images.mean((1, 2)), atol=0.05)


def test_mixed_images_and_labels_are_averages_of_two(backend, rng):
    x, labels = np.eye(8, dtype=np.float32), np.eye(8, dtype=np.float32)
    mixed, targets = augment.mixup(x, labels, alpha=1.0, seed=0)
    np.testing.assert_array_equal(mixed, targets)
    found = mixed.numpy()
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    assert ((found > 0).sum(1) <= 2).all()
    pairs = np.argmax(found - np.diag(np.diag(found)), axis=1)
    assert len(set(pairs[found.max(1) < 1])) > 3
    weights = augment.mixup(np.ones(3000, "f4"), np.ones(3000, "f4"), alpha=0.4, seed=1)
    np.testing.assert_allclose(weights[0], 1, rtol=1e-6)


def test_weights_of_mixtures_have_their_distribution(backend):
    marks = np.concatenate([np.ones(1500), np.zeros(1500)]).astype(np.float32)
    own = augment.mixup(marks, marks, alpha=0.4, seed=3)[0].numpy()
    inner = own[(own > 0) & (own < 1)]  # of a one and a zero: the weight, or what it lacks to 1
    assert len(inner) > 1000
    assert scipy.stats.kstest(inner, scipy.stats.beta(0.4, 0.4).cdf).pvalue > 1e-4


def test_rectangles_of_other_images(backend, rng):
    images = np.broadcast_to(np.arange(1, 9.0)[:, None, None, None], (8, 12, 10, 2)).astype("f4")
    mixed, targets = augment.cutmix(images, np.eye(8, dtype=np.float32), seed=0)
    mixed, targets = mixed.numpy(), targets.numpy()
    assert (mixed[..., 0] == mixed[..., 1]).all()
    partial = 0
    for i, (image, target) in enumerate(zip(mixed[..., 0], targets, strict=True)):
        is_other = image != i + 1
        assert len(set(image[is_other])) <= 1
        rows, columns = is_other.any(1), is_other.any(0)
        assert np.array_equal(is_other, rows[:, None] & columns)
        expected = np.zeros(8)
        expected[i] += 1 - is_other.mean()
        if is_other.any():
            expected[int(image[is_other][0]) - 1] += is_other.mean()
        np.testing.assert_allclose(target, expected, atol=1e-6)
        partial += 0 < is_other.mean() < 1
    assert partial > 3


AUGMENTATIONS = {
    "flip": lambda x, seed: augment.flip(x, seed=seed),
    "crop": lambda x, seed: augment.crop(x, 4, padding=1, seed=seed),
    "rotate": lambda x, seed: augment.rotate(x, 20, seed=seed),
    "colours": lambda x, seed: augment.adjust_colors(
        x, brightness=0.2, contrast=0.2, saturation=0.2, seed=seed
    ),
    "mixup": lambda x, seed: augment.mixup(x, x[:, 0, 0], seed=seed)[0],
    "cutmix": lambda x, seed: augment.cutmix(x, x[:, 0, 0], seed=seed)[0],
}


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_traced_steps_draw_as_untraced_ones_do(name, backend, images):
    step = AUGMENTATIONS[name]
    plain, traced = plugrad.random.Generator(3), plugrad.random.Generator(3)
    run = plugrad.jit(lambda x: step(x, traced))
    results = []
    for _ in range(3):
        results.append(step(plugrad.asarray(images), plain).numpy())
        np.testing.assert_allclose(run(plugrad.asarray(images)), results[-1], atol=1e-6)
    assert not np.array_equal(results[0], results[1])
    with plugrad.use("cpu"):  # a seed gives the same on all backends
        again = step(plugrad.asarray(images), plugrad.random.Generator(3)).numpy()
    np.testing.assert_allclose(results[0], again, atol=1e-5)
    assert step(plugrad.asarray(images[:0]), 0).shape[0] == 0


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_gradients(name, backend, rng):
    """Labels have gradients, too; clipped values have none."""
    images = rng.uniform(0.3, 0.6, (3, 4, 4, 3)).astype(np.float32)
    check_gradient(lambda x: AUGMENTATIONS[name](x, 4), images)
    if name in ("mixup", "cutmix"):
        mix = getattr(augment, name)
        labels = rng.random((3, 5)).astype(np.float32)
        check_gradient(lambda x, y: mix(x, y, seed=4)[1], images, labels)
        check_gradient(lambda x, y: mix(x, y, seed=4)[0], images, labels)


def test_gradients_of_clipped_colours(backend):
    images = np.full((1, 1, 2, 3), 0.5, np.float32)
    images[0, 0, 1] = 0.9
    slope = plugrad.grad(lambda x: plugrad.sum(augment.adjust_colors(x, brightness=0.4, seed=1)))
    factor = augment.adjust_colors(images, brightness=0.4, seed=1).numpy()[0, 0, 0, 0] * 2
    assert factor > 1 / 0.9
    np.testing.assert_allclose(slope(images)[0, 0, :, 0], [factor, 0], rtol=1e-6)


def test_the_layer_changes_images_in_training(backend, images):
    layer = nn.Augment(augment.flip, functools.partial(augment.crop, size=(5, 7), padding=2))
    assert np.array_equal(layer({}, images), images)
    one, other = (layer({}, images, nn.Training(seed)).numpy() for seed in (0, 1))
    assert one.shape == images.shape
    assert not np.array_equal(one, other)
    assert np.array_equal(one, layer({}, images, nn.Training(0)))
    model = nn.Sequential(layer, nn.Flatten(), nn.Dense(2))
    params = model.init(0, (5, 7, 3))
    results = nn.fit(
        model,
        params,
        images,
        np.arange(6) % 2,
        loss=nn.losses.sparse_softmax_cross_entropy,
        optimizer=plugrad.optimizers.SGD(0.01),
        epochs=2,
    )
    assert np.isfinite([result["loss"] for result in results]).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: augment.flip(x[0]), ShapeError, "flip: images must have shape"),
        (lambda x: augment.flip(x, seed="a"), ArgumentError, "seed='a' must be an integer or a"),
        (lambda x: augment.crop(x, 9), ShapeError, "smaller than parts"),
        (lambda x: augment.crop(x, 0), ArgumentValueError, "size"),
        (lambda x: augment.rotate(x, -1), ArgumentValueError, "degrees=-1"),
        (lambda x: augment.adjust_colors(x.astype(np.int32)), DTypeError, "images / 255"),
        (lambda x: augment.adjust_colors(x[..., :2]), ShapeError, "2 channels"),
        (lambda x: augment.adjust_colors(x, contrast=-1), ArgumentValueError, "contrast=-1"),
        (lambda x: augment.mixup(x, [0, 1]), DTypeError, "one_hot"),
        (lambda x: augment.mixup(x, [0.5]), ShapeError, "one size"),
        (lambda x: augment.mixup(x, x, alpha=0), ArgumentValueError, "more than 0"),
        (lambda x: augment.cutmix(x, np.ones(6, np.int32)), DTypeError, "cutmix: labels"),
        (lambda x: nn.Augment(), ArgumentError, "one function or more"),
        (lambda x: nn.Augment("flip"), ArgumentError, "function='flip'"),
    ],
)
def test_invalid_augmentation_arguments(call, error, message, images):
    with pytest.raises(error, match=message):
        call(images)
