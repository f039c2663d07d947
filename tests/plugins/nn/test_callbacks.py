"""Callbacks that write for other programs, draw, and change the learning rate; the bar in notebooks."""

import sys
import types
import warnings

import numpy as np
import pytest

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError

X, Y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)


def fit_dense(*callbacks, epochs=2, rate=0.1, **options):
    model, optimizer = nn.Dense(1), plugrad.optimizers.SGD(rate)
    params = model.init(0, (3,))
    loss = plugrad.losses.mean_squared_error
    with plugrad.use("cpu"):
        results = nn.fit(
            model,
            params,
            X,
            Y,
            loss=loss,
            optimizer=optimizer,
            epochs=epochs,
            callbacks=callbacks,
            validation_data=(X, Y),
            jit=False,
            **options,
        )
    return results, optimizer


class RecordingLibrary(types.ModuleType):
    """A stand-in for a library that records the calls of its functions."""

    def __init__(self, name, **answers):
        super().__init__(name)
        self.calls, self.answers = [], answers

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args, **kwargs):
            self.calls.append((name, *args, *kwargs.values()))
            return self.answers.get(name)

        return call


def test_callbacks_work_on_every_backend_as_on_cpu(backend, tmp_path):
    def train_once():
        params = nn.Dense(1).init(0, (3,))
        callbacks = [
            nn.Checkpoint(tmp_path / "best.safetensors", monitor="loss", save_optimizer=False),
            nn.CSVLogger(tmp_path / "log.csv"),
            nn.LearningRateScheduler(lambda epoch, rate: rate if epoch < 4 else 40.0),
            nn.ReduceLROnPlateau(monitor="loss", patience=0, factor=0.5),
        ]
        results = nn.fit(
            nn.Dense(1),
            params,
            X * np.float32([[1.0], [2.0], [3.0], [4.0]]),
            Y,
            loss=plugrad.losses.mean_squared_error,
            optimizer=plugrad.optimizers.SGD(0.01),
            epochs=9,
            callbacks=callbacks,
            early_stopping=nn.EarlyStopping("loss", patience=1, restore_best_weights=True),
        )
        best = plugrad.load(tmp_path / "best.safetensors")["kernel"].numpy()
        return [result["loss"] for result in results], params["kernel"].numpy(), best

    found, kernel, best = train_once()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    with plugrad.use("cpu"):
        expected = train_once()
    assert len(lines) == len(found) + 1 == len(expected[0]) + 1 < 10
    np.testing.assert_allclose(found, expected[0], rtol=1e-4)
    np.testing.assert_allclose(best, expected[2], rtol=1e-4)
    np.testing.assert_allclose(kernel, best)  # stopping gives the best ones back


def test_results_are_written_for_tensorboard(monkeypatch, tmp_path):
    writer = RecordingLibrary("writer")
    library = RecordingLibrary("tensorboardX", SummaryWriter=writer)
    monkeypatch.setitem(sys.modules, "tensorboardX", library)
    results, _ = fit_dense(nn.TensorBoard(tmp_path / "run"))
    assert library.calls == [("SummaryWriter", str(tmp_path / "run"))]
    expected = [
        ("add_scalar", name, value, epoch)
        for epoch, found in enumerate(results, 1)
        for name, value in {**found, "learning_rate": 0.1}.items()
    ]
    assert [call for call in writer.calls if call[0] == "add_scalar"] == expected
    assert writer.calls[-2:] == [("flush",), ("close",)]


def test_the_library_writes_for_tensorboard(tmp_path):
    """This covers the guide's example of custom values."""
    library = pytest.importorskip("tensorboardX", reason="tensorboardX is not installed")
    fit_dense(nn.TensorBoard(tmp_path / "run"))
    (file,) = (tmp_path / "run").iterdir()
    written = file.read_bytes()
    assert written.count(b"loss") >= 2
    assert written.count(b"learning_rate") == 2
    with library.SummaryWriter(tmp_path / "own") as writer:
        writer.add_scalar("loss", plugrad.asarray(2.5).item(), 1)
        writer.add_histogram("weights", plugrad.ones((3, 4)).numpy(), 1)
        with pytest.raises(NotImplementedError, match="expected numpy array"):
            writer.add_scalar("loss", plugrad.asarray(2.5), 1)
    (file,) = (tmp_path / "own").iterdir()
    assert b"weights" in file.read_bytes()


@pytest.mark.parametrize("is_active", [False, True])
def test_results_are_written_for_mlflow(is_active, monkeypatch):
    library = RecordingLibrary("mlflow", active_run="run" if is_active else None)
    monkeypatch.setitem(sys.modules, "mlflow", library)
    results, _ = fit_dense(nn.MLflow("first", "digits"))
    names = [name for name, *_ in library.calls]
    new = [] if is_active else ["set_experiment", "start_run"]
    end = [] if is_active else ["end_run"]
    assert names == ["active_run", *new, "log_params", "log_metrics", "log_metrics", *end]
    assert ("log_params", {"optimizer": "SGD", "epochs": 2, "learning_rate": 0.1}) in library.calls
    assert ("log_metrics", {**results[1], "rate": 0.1}, 2) in library.calls


@pytest.mark.parametrize(
    ("callback", "module", "remedy"),
    [
        (lambda: nn.TensorBoard("x"), "tensorboardX", "pip install tensorboardX"),
        (lambda: nn.MLflow(), "mlflow", "pip install mlflow-skinny"),
        (lambda: nn.LivePlot("x.png"), "matplotlib.figure", "pip install matplotlib"),
    ],
)
def test_a_library_that_is_missing_is_named(callback, module, remedy, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ArgumentError, match=f"is not installed; run: {remedy}"):
        fit_dense(callback())


@pytest.fixture
def fake_notebook(monkeypatch):
    """A fake IPython as in a notebook without ipywidgets; a list of the displayed figures."""
    shown = []
    handle = types.SimpleNamespace(update=lambda figure: shown.append(("update", figure)))

    def display(figure, display_id):
        shown.append(("new", figure))
        return handle

    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    for name in ("tqdm.autonotebook", "tqdm.notebook", "ipywidgets"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return shown


def test_results_are_drawn_to_a_file(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    fit_dense(nn.LivePlot(tmp_path / "plot.png"))
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArgumentError, match=r"there is no notebook to draw in; give a file"):
        fit_dense(nn.LivePlot())


def test_results_are_drawn_in_a_notebook(fake_notebook):
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    results, _ = fit_dense(nn.LivePlot(), epochs=3)
    assert [what for what, _ in fake_notebook] == ["new", "update", "update"]
    (axes,) = fake_notebook[-1][1].axes
    assert [line.get_label() for line in axes.lines] == ["loss", "val_loss"]
    assert axes.lines[1].get_ydata().tolist() == [found["val_loss"] for found in results]
    assert axes.lines[1].get_xdata().tolist() == [1, 2, 3]


def test_a_bar_is_drawn_in_a_notebook_without_a_warning(fake_notebook, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_dense(epochs=1)
        assert "epoch 1/1" in capsys.readouterr().err
        fit_dense(epochs=1, progress=False)
    assert capsys.readouterr().err == ""


# --- learning rates -------------------------------------------------------------------------------


class ScriptedResults(nn.Callback):
    """A callback that supplies a metric with given values for the epochs, and records the learning rates."""

    def __init__(self, *values):
        self.values, self.rates = values, []

    def on_epoch_begin(self, run, epoch):
        self.rates.append(run.optimizer.rate)

    def on_epoch_end(self, run, epoch, results):
        results["scripted"] = self.values[epoch - 1]


class MonitoringCallback(nn.ReduceLROnPlateau):
    """A callback that reads the supplied metric; each callback gets its own copy of the results."""

    def __init__(self, script, **options):
        super().__init__("scripted", **options)
        self.script = script

    def on_epoch_end(self, run, epoch, results):
        super().on_epoch_end(run, epoch, {"scripted": self.script.values[epoch - 1]})


@pytest.mark.parametrize(
    ("options", "values", "rates"),
    [
        ({"patience": 2}, [3, 2, 2, 2, 1, 1, 1], [8, 8, 8, 8, 4, 4, 4]),
        ({"patience": 1, "cooldown": 2}, [1, 1, 1, 1, 1, 1], [8, 8, 4, 4, 2, 2]),
        ({"patience": 1, "mode": "max", "min_delta": 0.5}, [1, 2, 2.4, 2.6], [8, 8, 8, 4]),
        ({"patience": 1, "min_lr": 3.0}, [1, 1, 1, 1], [8, 8, 4, 3]),
    ],
)
def test_the_learning_rate_is_reduced_as_by_keras(options, values, rates):
    script = ScriptedResults(*values)
    fit_dense(
        script, MonitoringCallback(script, factor=0.5, **options), epochs=len(values), rate=8.0
    )
    assert script.rates == rates


def test_the_learning_rate_of_each_epoch_is_scheduled():
    script = ScriptedResults(1, 1, 1)
    halve = nn.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch > 1 else rate)
    _, optimizer = fit_dense(halve, script, epochs=3, rate=8.0)
    assert script.rates == [8, 4, 2]
    assert optimizer.rate == 2


def test_wrong_arguments_of_learning_rate_callbacks():
    with pytest.raises(ArgumentError, match=r"schedule=0\.1 must be a function"):
        nn.LearningRateScheduler(0.1)
    with pytest.raises(ArgumentValueError, match=r"factor=1\.0"):
        nn.ReduceLROnPlateau(factor=1.0)
    with pytest.raises(ArgumentError, match="monitor='accuracy' is not among the results"):
        fit_dense(nn.ReduceLROnPlateau("accuracy"))
    with pytest.raises(ArgumentError, match="the learning rate is the schedule"):
        fit_dense(nn.ReduceLROnPlateau(), rate=lambda step: 0.1)
