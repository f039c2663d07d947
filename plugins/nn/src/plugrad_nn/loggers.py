"""Callbacks that show the results of a training in other programs, and in notebooks."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plugrad.extend import ArgumentError
from plugrad_nn.callbacks import Callback
from plugrad_nn.progress import is_in_notebook

if TYPE_CHECKING:
    from plugrad_nn.callbacks import Run


class TensorBoard(Callback):
    """Write the results of each epoch, and the learning rate, for TensorBoard: ``tensorboard --logdir runs``.

    >>> board = nn.TensorBoard("runs/first")

    The library tensorboardX writes them: ``pip install tensorboardX``. It takes numbers and NumPy's arrays but no
    tensors: in a loop or a callback of your own, write ``writer.add_scalar("loss", loss.item(), step)`` and
    ``writer.add_histogram("weights", weights.numpy(), step)``.

    Args:
        folder: where the files are written; each run has a folder of its own.

    Raises:
        ArgumentError: in training, tensorboardX is not installed.
    """

    only_in_first_process = True

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Store the folder."""
        self.folder = os.fspath(folder)
        self._writer: Any = None

    def on_train_begin(self, run: Run) -> None:
        """Open the writer."""
        self._writer = _import_optional("TensorBoard", "tensorboardX").SummaryWriter(self.folder)

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Write the results and flush, so that they appear immediately."""
        for name, value in {**results, "learning_rate": run.optimizer.rate}.items():
            self._writer.add_scalar(name, value, epoch)
        self._writer.flush()

    def on_train_end(self, run: Run) -> None:
        """Close the files."""
        self._writer.close()


class MLflow(Callback):
    """Write the arguments and the results of a training to MLflow, in the active run or in a new one.

    >>> log = nn.MLflow("first", "digits")

    The library is mlflow, or the smaller mlflow-skinny: ``pip install mlflow-skinny``. Where it writes is for
    ``mlflow.set_tracking_uri`` to say.

    Args:
        run_name: the name of a new run; None lets MLflow make one.
        experiment: the name of the experiment of a new run; None means the active one.

    Raises:
        ArgumentError: in training, mlflow is not installed.
    """

    only_in_first_process = True

    def __init__(self, run_name: str | None = None, experiment: str | None = None) -> None:
        """Store the names."""
        self.run_name = run_name
        self.experiment = experiment
        self._mlflow: Any = None
        self._is_own = False

    def on_train_begin(self, run: Run) -> None:
        """Start a run unless one is active, and log the arguments."""
        self._mlflow = _import_optional("MLflow", "mlflow", "mlflow-skinny")
        self._is_own = self._mlflow.active_run() is None
        if self._is_own:
            if self.experiment is not None:
                self._mlflow.set_experiment(self.experiment)
            self._mlflow.start_run(run_name=self.run_name)
        optimizer = run.optimizer
        arguments = {"optimizer": type(optimizer).__name__, "epochs": run.epochs}
        self._mlflow.log_params({**arguments, "learning_rate": optimizer.rate})

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Log the results and the learning rate."""
        self._mlflow.log_metrics({**results, "rate": run.optimizer.rate}, step=epoch)

    def on_train_end(self, run: Run) -> None:
        """End the run that this callback has started."""
        if self._is_own:
            self._mlflow.end_run()


class LivePlot(Callback):
    """Plot the results in a notebook or to a file, redrawn after each epoch.

    >>> plot = nn.LivePlot("results.png")

    The library matplotlib draws: ``pip install matplotlib``. A result and its ``"val_"`` share a picture.

    Args:
        path: a file to draw to, such as "results.png"; None shows the picture in the notebook.

    Raises:
        ArgumentError: in training, matplotlib is not installed, or there is neither a notebook nor a path.
    """

    only_in_first_process = True

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Store the path."""
        self.path = None if path is None else os.fspath(path)
        self._figure: Any = None
        self._shown: Any = None

    def on_train_begin(self, run: Run) -> None:
        """Start with an empty figure."""
        if self.path is None and not is_in_notebook():
            raise ArgumentError(
                'LivePlot: there is no notebook to draw in; give a file, as in LivePlot("results.png")'
            )
        # Not pyplot, which would show the figure once more at the end of the cell.
        self._figure = _import_optional("LivePlot", "matplotlib.figure", "matplotlib").Figure()
        self._shown = None

    def on_epoch_end(self, run: Run, epoch: int, results: dict[str, float]) -> None:
        """Redraw the results up to this epoch."""
        first = epoch - len(run.results) + 1
        epochs = [*range(first, epoch + 1)]
        names = [*dict.fromkeys(name.removeprefix("val_") for name in results)]
        self._figure.clear()
        self._figure.set_size_inches(5 * len(names), 3.5)
        for name, axes in zip(
            names, self._figure.subplots(1, len(names), squeeze=False)[0], strict=True
        ):
            for each in (name, f"val_{name}"):
                if each in results:
                    axes.plot(epochs, [found[each] for found in run.results], ".-", label=each)
            axes.set_xlabel("epoch")
            axes.legend()
        self._show()

    def _show(self) -> None:
        if self.path is not None:
            self._figure.savefig(self.path)
        elif self._shown is None:
            display = _import_optional("LivePlot", "IPython.display", "ipython").display
            self._shown = display(self._figure, display_id=True)
        else:
            self._shown.update(self._figure)


def _import_optional(owner: str, module: str, distribution: str | None = None) -> Any:
    """Import an optional library, or raise with the command that installs it.

    Raises:
        ArgumentError: it is not.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        name = distribution or module
        raise ArgumentError(
            f"{owner} needs the library {name}, which is not installed; run: pip install {name}"
        ) from error
