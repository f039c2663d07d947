"""Defects of TensorFlow.js 4.22 outside gradients that plugrad does not have, one test for each."""

import numpy as np
import pytest
import scipy

import plugrad
from plugrad import optimizers
from plugrad.errors import DisposedTensor, DTypeError, ShapeError, TensorIndexError

tensor = plugrad.asarray


@pytest.fixture(autouse=True)
def _on_cpu():
    with plugrad.use("cpu"):
        yield


@pytest.mark.parametrize("op", ["conv2d", "max_pool", "avg_pool"])
def test_numeric_padding_looks_at_each_axis_by_itself(op):
    """The width depends on the filter's width and the horizontal stride."""
    x = plugrad.ones((1, 7, 9, 1))
    if op == "conv2d":
        y = plugrad.conv2d(x, plugrad.ones((2, 5, 1, 1)), strides=(3, 2), padding=1)
    else:
        y = getattr(plugrad, op)(x, (2, 5), (3, 2), 1)
    assert y.shape == (1, (7 + 2 - 2) // 3 + 1, (9 + 2 - 5) // 2 + 1, 1)


def test_same_padding_of_volumes_is_never_negative():
    """A filter of size 1 with stride 3 reads elements 0 and 3 of 5, not 1 and 4."""
    x = plugrad.reshape(plugrad.arange(5, dtype="float32"), (1, 5, 1, 1, 1))
    pooled = plugrad.max_pool3d(x, 1, (3, 1, 1), "same")
    filtered = plugrad.conv3d(x, plugrad.ones((1, 1, 1, 1, 1)), (3, 1, 1), "same")
    assert pooled.numpy().ravel().tolist() == filtered.numpy().ravel().tolist() == [0.0, 3.0]


def test_batches_of_matrices_broadcast_on_both_sides(rng):
    a, b = rng.normal(size=(2, 1, 3, 4)), rng.normal(size=(1, 5, 4, 2))
    np.testing.assert_allclose((tensor(a) @ tensor(b)).numpy(), a @ b)


def test_depthwise_convolution_takes_channels_first(rng):
    x, f = rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(2, 2, 3, 2))
    last = plugrad.depthwise_conv2d(x, f)
    first = plugrad.depthwise_conv2d(x.transpose(0, 3, 1, 2), f, data_format="NCHW")
    np.testing.assert_allclose(first.numpy().transpose(0, 2, 3, 1), last.numpy())
    expected = scipy.signal.correlate(x[0, :, :, 1], f[:, :, 1, 0], "valid")
    np.testing.assert_allclose(last.numpy()[0, :, :, 2], expected)


@pytest.mark.parametrize("begin", [-1, -2, -3])
def test_slice_with_a_negative_begin_is_refused(begin):
    with pytest.raises((ShapeError, ValueError), match=r"-\d"):
        plugrad.slice(plugrad.arange(5), [begin], [1])


def test_scattered_updates_leave_the_original_alone():
    x = plugrad.zeros(3)
    y = plugrad.tensor_scatter_update(x, tensor([[1]]), tensor([5.0]))
    assert (x.tolist(), y.tolist()) == ([0, 0, 0], [0, 5, 0])


def test_concat_promotes_dtypes():
    y = plugrad.concat([tensor([1, 2]), tensor([0.5])])
    assert (y.dtype, y.tolist()) == ("float32", [1.0, 2.0, 0.5])


def test_bools_are_not_added_to_two():
    with pytest.raises(DTypeError, match="add does not take bool"):
        plugrad.add(tensor([True]), tensor([True]))


def test_reshaping_complex_numbers_leaves_the_original_alone():
    z = tensor(np.arange(4, dtype=np.complex64))
    assert plugrad.reshape(z, (2, 2)).shape == (2, 2)
    assert z.shape == plugrad.real(z).shape == (4,)


def test_all_of_an_empty_tensor_is_true_and_its_mean_is_nan():
    assert plugrad.all(plugrad.zeros(0, dtype="bool")).item() is True
    assert np.isnan(plugrad.mean(plugrad.zeros(0)).item())


def test_logarithm_of_a_sum_of_zeros():
    assert plugrad.log_sum_exp(tensor([-np.inf, -np.inf])).item() == -np.inf


@pytest.mark.parametrize("reduction", ["mean", "sum", "sum_by_nonzero_weights"])
def test_losses_without_weight_are_zero(reduction):
    loss = plugrad.losses.compute_weighted_loss([1.0, 2.0], [0.0, 0.0], reduction=reduction)
    assert loss.item() == 0.0


def test_label_smoothing_counts_the_classes_of_the_right_axis():
    labels, logits = np.eye(4)[:2].T, np.zeros((4, 2))  # classes on axis 0
    loss = plugrad.losses.softmax_cross_entropy(
        labels, logits, label_smoothing=0.2, axis=0, reduction="none"
    )
    np.testing.assert_allclose(loss.numpy(), np.log(4.0), rtol=1e-6)
    logits[0, 0] = 3.0
    flipped = plugrad.losses.softmax_cross_entropy(
        labels, logits, label_smoothing=0.2, axis=0, reduction="none"
    )
    smooth = labels * 0.8 + 0.05
    log_p = np.array([3.0, 0, 0, 0]) - np.log(np.exp(3) + 3)
    np.testing.assert_allclose(flipped.numpy()[0], -(smooth[:, 0] * log_p).sum(), rtol=1e-6)


def test_norm_along_negative_axes(rng):
    x = rng.normal(size=(2, 3, 4))
    for ord in (1, np.inf, "euclidean"):
        expected = np.linalg.norm(x, None if ord == "euclidean" else ord, (-1, -3))
        np.testing.assert_allclose(plugrad.linalg.norm(x, ord, (-1, -3)).numpy(), expected)


def test_qr_of_batches_of_oblong_matrices(rng):
    x = rng.normal(size=(2, 3, 5, 2))
    q, r = plugrad.linalg.qr(x)
    assert (q.shape, r.shape) == ((2, 3, 5, 2), (2, 3, 2, 2))
    np.testing.assert_allclose((q @ r).numpy(), x, atol=1e-12)


def test_random_integers_around_zero_are_uniform():
    drawn = plugrad.random.Generator(1).integers((60_000,), -3, 3).numpy()
    counts = np.bincount(drawn + 3, minlength=6)
    assert counts.size == 6
    np.testing.assert_allclose(counts / drawn.size, 1 / 6, atol=0.01)


def test_gamma_divides_by_the_rate():
    drawn = plugrad.random.Generator(2).gamma((40_000,), 3.0, 2.0).numpy()
    assert drawn.mean() == pytest.approx(3.0 / 2.0, rel=0.02)
    assert drawn.var() == pytest.approx(3.0 / 2.0**2, rel=0.05)


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: g.normal((5,)),
        lambda g: g.truncated_normal((5,)),
        lambda g: g.gamma((5,), 2.0),
        lambda g: g.multinomial(tensor([0.0, 0.5, 1.0]), 20),
        lambda g: g.uniform((5,)),
    ],
)
def test_zero_is_a_seed(draw):
    first, again, other = (draw(plugrad.random.Generator(seed)).tolist() for seed in (0, 0, 1))
    assert first == again != other


@pytest.mark.parametrize("window", [plugrad.signal.hann_window, plugrad.signal.hamming_window])
def test_window_of_one_sample_is_one(window):
    assert window(1).tolist() == [1.0]


def test_inverse_transform_and_search_keep_the_rank():
    assert plugrad.fft.irfft(tensor([1 + 0j, 2 + 0j])).shape == (2,)
    assert plugrad.searchsorted(tensor([1.0, 2.0]), tensor([1.5])).shape == (1,)


def test_split_does_not_modify_its_list_of_sizes():
    sizes = [1, -1]
    plugrad.split(plugrad.arange(5), sizes)
    assert sizes == [1, -1]


def test_backend_names_may_have_underscores():
    configs = [plugrad.KernelConfig(name, "my_gpu", np.negative) for name in ("Neg", "Abs")]
    for config in configs:
        plugrad.register_kernel(config)
    try:
        assert {c.kernel_name for c in plugrad.get_kernels_for_backend("my_gpu")} == {"Neg", "Abs"}
        assert not plugrad.get_kernels_for_backend("my")
        plugrad.copy_registered_kernels("my_gpu", "your_big_gpu")
        assert plugrad.get_kernel("Abs", "your_big_gpu").kernel_func is np.negative
    finally:
        for name in ("my_gpu", "your_big_gpu"):
            for config in plugrad.get_kernels_for_backend(name):
                plugrad.unregister_kernel(config.kernel_name, name)


def test_profile_block_ends_with_an_error():
    """TensorFlow.js's profile stays on after an error; each block of plugrad ends with an error."""
    before = plugrad.memory().tensors

    def fails():
        with plugrad.tidy():
            return plugrad.zeros(3) / (1 // 0)

    with pytest.raises(ZeroDivisionError):
        fails()
    assert plugrad.memory().tensors == before
    kernel = plugrad.get_kernel("Abs", "cpu")
    with pytest.raises(ZeroDivisionError), plugrad.override_kernel("Abs", "cpu", np.negative):
        _ = 1 / 0
    assert plugrad.get_kernel("Abs", "cpu") == kernel


def test_adadelta_uses_its_accumulator_after_the_update():
    """The first step for v² = 1, with rate 1 and epsilon 1e-6, is about 0.0045 (Zeiler, 2012), not 2."""
    v = plugrad.Variable(np.float64(1.0))
    optimizers.Adadelta(1.0, 0.95, 1e-6).minimize(lambda: v * v, [v])
    step = np.sqrt(1e-6 / (0.05 * 4 + 1e-6)) * 2
    assert v.item() == pytest.approx(1 - step)


def test_changed_momentum_takes_effect():
    v = plugrad.Variable(0.0)
    optimizer = optimizers.Momentum(1.0, momentum=0.9)
    optimizer.apply_gradients([(v, tensor(1.0))])
    optimizer.momentum = 0.0
    optimizer.apply_gradients([(v, tensor(1.0))])
    assert v.item() == -2.0


def test_slots_belong_to_variables():
    """A variable that a step does not update keeps its own momentum."""
    a, b = plugrad.Variable(0.0), plugrad.Variable(0.0)
    optimizer = optimizers.Momentum(1.0, momentum=0.5)
    optimizer.apply_gradients([(a, tensor(1.0)), (b, tensor(10.0))])
    optimizer.apply_gradients([(b, tensor(0.0))])
    assert (a.item(), b.item()) == (-1.0, -15.0)


def test_use_of_a_disposed_tensor_raises_an_error():
    x = plugrad.ones(2)
    x.dispose()
    with pytest.raises(DisposedTensor, match="this tensor has been disposed"):
        plugrad.exp(x)


@pytest.mark.parametrize("literal", [[[1, 2], [3]], [[1], 2], [[[1]], [[2, 3]]]])
def test_ragged_literals_are_refused(literal):
    with pytest.raises(ShapeError, match="ragged"):
        tensor(literal)


@pytest.mark.parametrize("index", [-3, 2])
def test_crops_with_an_image_index_out_of_range_are_rejected(index):
    image, box = plugrad.ones((2, 4, 4, 1)), tensor([[0.0, 0.0, 1.0, 1.0]])
    with pytest.raises(TensorIndexError, match=str(index)):
        plugrad.image.crop_and_resize(image, box, tensor([index]), (2, 2))


def test_both_operands_of_einsum_may_sum_letters_of_their_own(rng):
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(2, 5))
    expected = np.einsum("ij,kl->il", a, b)
    np.testing.assert_allclose(plugrad.einsum("ij,kl->il", a, b).numpy(), expected)
