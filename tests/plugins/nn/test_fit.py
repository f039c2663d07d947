"""Batches, shuffling, and the training loop."""

import io
import sys

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugins.nn.conftest import as_numpy
from plugrad.extend import ArgumentError, ArgumentValueError, ShapeError

MODEL = nn.Sequential(nn.Dense(8), nn.BatchNorm(), plugrad.tanh, nn.Dropout(0.1), nn.Dense(2))
LOSS = nn.losses.sparse_softmax_cross_entropy


@pytest.fixture
def training_examples(rng):
    x = rng.normal(size=(50, 3)).astype(np.float32)
    return x, (x[:, 0] + x[:, 1] > x[:, 2]).astype(np.int32)


def test_batches_in_order_and_shuffled(backend):
    x, y = np.arange(14, dtype=np.float32).reshape(7, 2), list(range(7))
    in_order = list(nn.batches(x, y, size=3))
    assert [part.shape for part, _ in in_order] == [(3, 2), (3, 2), (1, 2)]
    np.testing.assert_array_equal(np.concatenate([a.numpy() for a, _ in in_order]), x)
    assert len(list(nn.batches(x, size=3, drop_remainder=True))) == 2
    assert list(nn.batches(x[:0], size=3)) == []

    drawn = [
        np.concatenate([b.numpy() for _, b in nn.batches(x, y, size=3, seed=s)]) for s in (0, 0, 1)
    ]
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()
    assert sorted(drawn[0].tolist()) == y
    for a, b in nn.batches(plugrad.asarray(x), np.array(y), size=4, seed=0):
        assert a.device.startswith(backend)
        np.testing.assert_array_equal(a.numpy()[:, 0], 2 * b.numpy())


def test_lists_have_the_dtypes_of_tensors(backend):
    ((x, y, z),) = nn.batches([1.5, 2.5], [0, 1], [np.float16(1), np.float16(2)])
    assert (x.dtype, y.dtype, z.dtype) == ("float32", "int32", "float16")


def test_arrays_are_shuffled_together(backend):
    x, y = nn.shuffled(np.arange(20), plugrad.arange(20), seed=3)
    assert isinstance(x, np.ndarray)
    assert isinstance(y, plugrad.Tensor)
    np.testing.assert_array_equal(x, y)
    assert sorted(x.tolist()) == list(range(20)) != x.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.batches(), ArgumentError, "one array or more"),
        (lambda: nn.batches([1, 2], [1]), ShapeError, r"shapes \(2,\), \(1,\)"),
        (lambda: nn.batches(1.0), ShapeError, "the number of examples"),
        (lambda: nn.batches([1], 32), ShapeError, "have names, such as size=32"),
        (
            lambda: nn.batches(([[1]], [1])),
            ArgumentError,
            r"one after the other, as in batches\(x, y\)",
        ),
        (lambda: nn.batches([1], size=0), ArgumentValueError, "size=0"),
        (lambda: nn.batches([1], seed=-1), ArgumentValueError, "seed=-1"),
        (lambda: nn.shuffled([1], seed=None), ArgumentError, "seed=None"),
        (lambda: nn.EarlyStopping(mode="auto"), ArgumentValueError, "mode='auto'"),
        (lambda: nn.EarlyStopping(patience=-1), ArgumentValueError, "patience=-1"),
    ],
)
def test_invalid_data_of_batches_and_fit(call, error, message):
    with pytest.raises(error, match=message):
        call()


def train_model(examples, **options):
    params = MODEL.init(0, (3,))
    optimizer = plugrad.optimizers.Adam(0.05)
    results = nn.fit(
        MODEL, params, *examples, loss=LOSS, optimizer=optimizer, batch_size=20, **options
    )
    return params, optimizer, results


def test_fit_learns(backend, training_examples):
    params, optimizer, results = train_model(
        training_examples,
        epochs=4,
        validation_data=training_examples,
        metrics={"accuracy": nn.metrics.accuracy},
    )
    assert optimizer.iterations == 12
    assert results[-1]["loss"] < results[0]["loss"]
    assert results[-1]["val_accuracy"] > 0.8
    assert params["batch_norm"]["moving_mean"].numpy().any()
    alone = nn.evaluate(
        MODEL, params, *training_examples, loss=LOSS, metrics={"accuracy": nn.metrics.accuracy}
    )
    assert abs(alone["loss"] - results[-1]["val_loss"]) < 1e-5
    logits = nn.predict(MODEL, params, training_examples[0], batch_size=7)
    np.testing.assert_allclose(logits, MODEL(params, training_examples[0]), rtol=1e-4, atol=1e-5)
    assert abs(nn.metrics.accuracy(training_examples[1], logits).item() - alone["accuracy"]) < 1e-6


def test_fit_is_the_loop_that_the_guide_writes(training_examples):
    with plugrad.use("cpu"):
        params, _, results = train_model(training_examples, epochs=2, seed=5)
        by_hand, optimizer, losses = MODEL.init(0, (3,)), plugrad.optimizers.Adam(0.05), []
        for epoch in range(2):
            for x, y in nn.batches(*training_examples, size=20, seed=5 * 2**32 + epoch):
                training = nn.Training(5 * 2**32 + optimizer.iterations)

                def loss(x=x, y=y, training=training):
                    return LOSS(y, MODEL(by_hand, x, training))

                losses.append(len(x) * optimizer.minimize(loss, nn.leaves(by_hand)).item())
                training.commit(by_hand)
    np.testing.assert_array_equal(params["dense"]["kernel"], by_hand["dense"]["kernel"])
    np.testing.assert_array_equal(
        params["batch_norm"]["moving_variance"], by_hand["batch_norm"]["moving_variance"]
    )
    np.testing.assert_allclose(results[1]["loss"], sum(losses[3:]) / 50, rtol=1e-6)


def test_a_resumed_training_is_the_same_to_the_bit(training_examples):
    with plugrad.use("cpu"):
        whole, _, results = train_model(training_examples, epochs=4)
        params, optimizer, _ = train_model(training_examples, epochs=2)
        saved, state = as_numpy(params), optimizer.get_state(nn.leaves(params))

        params, optimizer = MODEL.init(9, (3,)), plugrad.optimizers.Adam(0.05)
        nn.assign(params, saved)
        optimizer.set_state(nn.leaves(params), state)
        later = nn.fit(
            MODEL,
            params,
            *training_examples,
            loss=LOSS,
            optimizer=optimizer,
            batch_size=20,
            epochs=4,
            initial_epoch=2,
        )
    assert later == results[2:]
    for ours, theirs in zip(nn.leaves(params), nn.leaves(whole), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_predictions_may_be_containers(backend):
    x = {"a": np.arange(5, dtype=np.float32), "b": (np.ones((5, 2), np.float32),)}

    def model(params, x, mode):
        return x["a"] * 2, {"sum": plugrad.sum(x["b"][0], axis=1)}

    doubled, rest = nn.predict(model, {}, x, batch_size=2)
    assert doubled.tolist() == [0, 2, 4, 6, 8]
    assert rest["sum"].tolist() == [2] * 5


def test_evaluate_reads_a_generator(training_examples):
    x, y = training_examples
    params = MODEL.init(0, (3,))
    found, expected = (
        nn.evaluate(MODEL, params, *data, loss=LOSS)
        for data in [(((x[i : i + 10], y[i : i + 10]) for i in range(0, 50, 10)),), (x, y)]
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_layers_may_share_a_weight(training_examples, tmp_path):
    model = nn.Sequential(nn.Dense(3), plugrad.tanh, nn.Dense(3), plugrad.tanh, nn.Dense(2))
    params = model.init(0, (3,))
    params["dense_1"]["kernel"] = params["dense"]["kernel"]
    variables = nn.leaves(params)
    assert len(variables) == 5
    assert len(nn.leaves([params, params])) == 5
    average = nn.MovingAverage(params, 0.5)
    results = nn.fit(
        model,
        params,
        *training_examples,
        loss=LOSS,
        optimizer=plugrad.optimizers.Adam(0.05),
        epochs=20,
        callbacks=[average, nn.Checkpoint(tmp_path / "shared.safetensors")],
    )
    assert results[-1]["loss"] < results[0]["loss"] / 2
    loaded, state = plugrad.load(tmp_path / "shared.safetensors")
    assert loaded["dense_1"]["kernel"] is loaded["dense"]["kernel"]
    assert len(state["variables"]) == 5
    np.testing.assert_array_equal(
        average.params["dense"]["kernel"], average.params["dense_1"]["kernel"]
    )


def test_early_stopping(training_examples):
    values = iter([3.0, 2.0, 2.5, 1.9, 4.0, 5.0])
    seen = []

    def note(epoch, results):
        seen.append((epoch, results, as_numpy(params)))

    def scripted(labels, logits):
        return plugrad.asarray(next(values))

    params = MODEL.init(0, (3,))
    with plugrad.use("cpu"):
        results = nn.fit(
            MODEL,
            params,
            *training_examples,
            loss=LOSS,
            optimizer=plugrad.optimizers.SGD(0.1),
            batch_size=50,
            epochs=9,
            validation_data=(training_examples[0][:1], training_examples[1][:1]),
            metrics={"scripted": scripted},
            early_stopping=nn.EarlyStopping(
                "val_scripted", min_delta=0.2, patience=3, restore_best_weights=True
            ),
            on_epoch_end=note,
        )
    assert [r["val_scripted"] for r in results] == [3.0, 2.0, 2.5, 1.899999976158142, 4.0]
    assert [epoch for epoch, *_ in seen] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(params["dense"]["kernel"], seen[1][2]["dense"]["kernel"])
    np.testing.assert_array_equal(
        params["batch_norm"]["moving_mean"], seen[1][2]["batch_norm"]["moving_mean"]
    )


def test_early_stopping_can_maximize_a_metric(training_examples):
    values = iter([0.5, 0.6, 0.4])
    with plugrad.use("cpu"):
        _, _, results = train_model(
            training_examples,
            epochs=9,
            validation_data=(training_examples[0][:1], training_examples[1][:1]),
            metrics={"m": lambda labels, logits: plugrad.asarray(next(values))},
            early_stopping=nn.EarlyStopping("val_m", patience=1, mode="max"),
        )
    assert len(results) == 3


def test_best_weights_may_be_those_of_an_epoch_that_a_callback_stops(training_examples):
    class StopInSecondEpoch(nn.Callback):
        def on_epoch_end(self, run, epoch, results):
            kernels.append(run.params["dense"]["kernel"].numpy().tolist())
            run.is_stopped = epoch == 2

    kernels = []
    with plugrad.use("cpu"):
        params, results = fit_and_get_params(
            *training_examples,
            epochs=5,
            callbacks=[StopInSecondEpoch()],
            early_stopping=nn.EarlyStopping("loss", restore_best_weights=True),
        )
    assert results[1]["loss"] < results[0]["loss"]
    assert params["dense"]["kernel"].tolist() == kernels[1] != kernels[0]


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "progress", "is_drawn"),
    [
        (io.StringIO(), None, False),
        (FakeTerminal(), None, True),
        (FakeTerminal(), False, False),
        (io.StringIO(), True, True),
    ],
)
def test_a_bar_is_drawn_on_a_terminal(stream, progress, is_drawn, training_examples, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    with plugrad.use("cpu"):
        train_model(training_examples, epochs=1, progress=progress)
    assert ("epoch 1/1" in stream.getvalue()) is is_drawn
    assert ("loss" in stream.getvalue()) is is_drawn


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"optimizer": 0.1}, ArgumentError, "optimizer=0.1 must be one of plugrad.optimizers"),
        (
            {"optimizer": plugrad.optimizers.LBFGS()},
            ArgumentError,
            r"call optimizer.minimize\(func",
        ),
        (
            {"loss": "mse"},
            ArgumentError,
            "fit: loss='mse' must be a function, such as plugrad.losses.mean_squared_error$",
        ),
        ({"model": None}, ArgumentError, "fit: model=None must be a function"),
        ({"epochs": 1.5}, ArgumentError, "epochs=1.5"),
        ({"batch_size": 0}, ArgumentValueError, "batch_size=0"),
        ({"steps_per_epoch": 0}, ArgumentValueError, "steps_per_epoch=0"),
        ({"validation_data": (iter([]),)}, ArgumentError, "validation_data has a generator"),
        (
            {"metrics": {"loss": nn.metrics.accuracy}, "validation_data": (np.ones((1, 3)), [0])},
            ArgumentError,
            "a metric is called 'loss'",
        ),
        ({"y": [1]}, ShapeError, "the number of examples"),
        ({"params": []}, ArgumentError, "fit: parameters are nested dicts"),
        ({"params": (MODEL.init(0, (3,)),)}, ArgumentError, "fit: parameters are nested dicts"),
        ({"metrics": {"a": nn.metrics.accuracy}}, ArgumentError, "validation_data"),
        (
            {"metrics": ["accuracy"]},
            ArgumentError,
            r"metrics=\['accuracy'\] must be a dict of functions by name",
        ),
        (
            {"validation_data": np.ones((2, 3))},
            ArgumentError,
            r"validation_data must be a tuple, such as \(x, y\), and not a ndarray",
        ),
        (
            {"callbacks": nn.EarlyStopping(patience=2)},
            ArgumentError,
            r"write early_stopping=EarlyStopping\(.*patience=2",
        ),
        ({"callbacks": [nn.EarlyStopping()]}, ArgumentError, "write early_stopping=Early"),
        ({"callbacks": nn.Callback()}, ArgumentError, "must be a list of objects of nn.Callback"),
        ({"callbacks": [print]}, ArgumentError, "must be a list of objects of nn.Callback"),
        ({"validation_data": ()}, ArgumentError, "validation_data is empty"),
        ({"on_epoch_end": 3}, ArgumentError, "fit: on_epoch_end=3 must be a function"),
        ({"early_stopping": 3}, ArgumentError, "early_stopping=3 must be an object such as"),
        ({"strategy": "data"}, ArgumentError, "fit: strategy='data' must be an object such as"),
        ({"strategy": list}, ArgumentError, "fit: strategy=<class 'list'> must be an object"),
        ({"early_stopping": nn.EarlyStopping()}, ArgumentError, "monitor='val_loss' is not among"),
    ],
)
def test_wrong_arguments_of_fit(options, error, message, training_examples):
    arguments = {
        "model": MODEL,
        "params": MODEL.init(0, (3,)),
        "x": training_examples[0],
        "y": training_examples[1],
        "loss": LOSS,
        "optimizer": plugrad.optimizers.SGD(0.1),
    }
    with plugrad.use("cpu"), pytest.raises(error, match=message):
        nn.fit(**arguments | options)


# --- traced --------------------------------------------------------------------------------------


def test_traced_steps_give_the_bits_of_untraced_ones(backend, training_examples):
    results = [train_model(training_examples, epochs=2, jit=jit) for jit in (True, False)]
    (params, _, traced), (others, _, untraced) = results
    for found, expected in zip(as_leaves(params), as_leaves(others), strict=True):
        if backend == "cpu":
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    assert [r["loss"] for r in traced] == pytest.approx([r["loss"] for r in untraced], rel=1e-6)


def as_leaves(params):
    return [variable.numpy() for variable in nn.leaves(params)]


def test_a_model_that_needs_values_trains_untraced_and_says_why(training_examples):
    def model(params, x, mode):
        y = MODEL(params, x, mode)
        return y if plugrad.max(plugrad.abs(y)) < 1e9 else y * 0

    params = MODEL.init(0, (3,))
    options = {"loss": LOSS, "optimizer": plugrad.optimizers.SGD(0.1), "epochs": 2}
    with pytest.warns(UserWarning, match=r"untraced.*bool\(\).*test_fit\.py") as warned:
        results = nn.fit(model, params, *training_examples, **options)
    assert len(warned) == 1
    assert results[1]["loss"] < results[0]["loss"]


def test_a_seed_may_be_a_function(backend):
    step = iter(range(100))
    layer, x = nn.Dropout(0.5), plugrad.ones((4, 50))
    traced = plugrad.jit(lambda x: layer({}, x, nn.Training(lambda: next(step))))
    found = [traced(x).tolist() for _ in range(3)]
    assert found == [layer({}, x, nn.Training(seed)).tolist() for seed in range(3)]
    assert found[0] != found[1]


# --- what x may be, and callbacks ------------------------------------------------------------------


def fit_and_get_params(x, y=None, model=MODEL, shape=(3,), **options):
    params = model.init(0, shape)
    results = nn.fit(
        model, params, x, y, loss=LOSS, optimizer=plugrad.optimizers.Adam(0.05), **options
    )
    return as_numpy(params), results


def assert_same_parameters(first, second):
    for a, b in zip(nn.leaves(first), nn.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_iterable_of_batches_is_iterated_again_in_each_epoch(backend, training_examples):
    x, y = training_examples
    own = [(x[i : i + 16], y[i : i + 16]) for i in range(0, 50, 16)]
    drawn = []

    class Loader:
        """An iterable without a length, like a data loader of another library."""

        def __iter__(self):
            drawn.append(1)
            return iter([list(pair) for pair in own])

    found, results = fit_and_get_params(Loader(), epochs=3)
    assert len(drawn) == 3
    assert_same_parameters(found, fit_and_get_params(own, epochs=3)[0])
    assert len(results) == 3


def test_a_loader_of_torch_is_an_iterable_of_batches(backend, training_examples):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, y = training_examples
    numbers = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    found, _ = fit_and_get_params(torch.utils.data.DataLoader(numbers, batch_size=16))
    own = [(x[i : i + 16], y[i : i + 16]) for i in range(0, 50, 16)]
    assert_same_parameters(found, fit_and_get_params(own)[0])


def test_columns_of_a_data_set_of_hugging_face_are_arrays(backend, training_examples):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    import pyarrow

    x, y = training_examples
    table = pyarrow.table({"x": x.tolist(), "y": y.tolist()})
    rows = datasets.Dataset(table, fingerprint="of these numbers")
    with plugrad.config.override("unsupported_dtype", "always"):  # webgpu has no float64
        _, results = fit_and_get_params(rows["x"], rows["y"], batch_size=16)
    _, expected = fit_and_get_params(x, y, batch_size=16)
    assert results[0]["loss"] == pytest.approx(expected[0]["loss"], rel=1e-4)


def test_generator_of_batches_continues_in_the_next_epoch(training_examples):
    x, y = training_examples

    def generate():
        for i in range(0, 48, 8):
            yield x[i : i + 8], y[i : i + 8]

    with plugrad.use("cpu"):
        _, results = fit_and_get_params(generate(), epochs=2, steps_per_epoch=3)
        with pytest.raises(ArgumentError, match="give steps_per_epoch="):
            fit_and_get_params(generate())
        with pytest.raises(ArgumentError, match=r"pairs \(inputs, labels\), .*and not a ndarray"):
            fit_and_get_params([x])
        with pytest.raises(ArgumentError, match="without y, x must be an iterable"):
            fit_and_get_params(x)
    assert len(results) == 2
    assert np.isfinite(results[1]["loss"])


def test_an_epoch_may_have_fewer_steps(training_examples):
    counted = []

    class StepRecorder(nn.Callback):
        def on_batch_end(self, run, step, loss):
            counted.append(step)

    with plugrad.use("cpu"):
        fit_and_get_params(
            *training_examples,
            batch_size=8,
            steps_per_epoch=2,
            epochs=2,
            callbacks=[StepRecorder()],
        )
    assert counted == [1, 2, 1, 2]


def test_inputs_may_be_containers(backend, training_examples):
    x, y = training_examples
    model = nn.Graph(
        ["a", "b"],
        {"both": (nn.Concatenate(), "a", "b"), "out": (nn.Dense(2), "both")},
        "out",
    )
    shape = {"a": (1,), "b": (2,)}
    named = {"a": x[:, :1], "b": x[:, 1:]}
    found, results = fit_and_get_params(named, y, model, shape, epochs=3)
    assert results[-1]["loss"] < results[0]["loss"]
    assert_same_parameters(
        found, fit_and_get_params((named["a"], named["b"]), y, model, shape, epochs=3)[0]
    )
    params = model.init(0, shape)
    whole = nn.evaluate(model, params, named, y, loss=LOSS)["loss"]
    parts = [(({"a": x[i : i + 25, :1], "b": x[i : i + 25, 1:]}), y[i : i + 25]) for i in (0, 25)]
    assert nn.evaluate(model, params, parts, loss=LOSS)["loss"] == pytest.approx(whole, rel=1e-5)


def test_arrays_in_files_are_read_batch_by_batch(training_examples, tmp_path):
    x, y = training_examples
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=x.shape)
    mapped[:] = x
    with plugrad.use("cpu"):
        assert_same_parameters(
            fit_and_get_params(mapped, y, epochs=2)[0], fit_and_get_params(x, y, epochs=2)[0]
        )


class RecordingCallback(nn.Callback):
    """A callback that records its calls, and stops after the second epoch."""

    def __init__(self):
        self.calls = []

    def on_train_begin(self, run):
        self.calls.append(("begin", run.epochs))

    def on_epoch_begin(self, run, epoch):
        self.calls.append(("epoch", epoch))

    def on_epoch_end(self, run, epoch, results):
        self.calls.append(("end", epoch, len(run.results), list(results)))
        run.is_stopped = epoch == 2

    def on_train_end(self, run):
        self.calls.append(("over", len(run.results)))


def test_callbacks_are_called_and_may_stop(training_examples):
    recorder = RecordingCallback()
    with plugrad.use("cpu"):
        _, results = fit_and_get_params(*training_examples, epochs=5, callbacks=[recorder])
    assert len(results) == 2
    assert recorder.calls == [
        ("begin", 5),
        ("epoch", 1),
        ("end", 1, 1, ["loss"]),
        ("epoch", 2),
        ("end", 2, 2, ["loss"]),
        ("over", 2),
    ]


def test_checkpoints_and_logs(training_examples, tmp_path):
    saved, best = tmp_path / "{epoch}.safetensors", tmp_path / "best.safetensors"
    callbacks = [
        nn.Checkpoint(saved),
        nn.Checkpoint(best, monitor="val_loss", save_optimizer=False),
        nn.CSVLogger(tmp_path / "log.csv"),
    ]
    with plugrad.use("cpu"):
        found, results = fit_and_get_params(
            *training_examples, epochs=3, callbacks=callbacks, validation_data=training_examples
        )
        params, state = plugrad.load(tmp_path / "3.safetensors")
        assert_same_parameters(params, found)
        assert state["iterations"] == 6
        losses = [result["val_loss"] for result in results]
        epoch = 1 + int(np.argmin(losses))
        assert_same_parameters(
            plugrad.load(best), plugrad.load(tmp_path / f"{epoch}.safetensors")[0]
        )
        with pytest.raises(ArgumentError, match="monitor='accuracy' is not among the results"):
            fit_and_get_params(
                *training_examples, callbacks=[nn.Checkpoint(best, monitor="accuracy")]
            )
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[0] == "epoch,loss,val_loss"
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3"]
    assert float(lines[3].split(",")[2]) == losses[2]
