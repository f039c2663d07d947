"""What a layer is: an immutable description, which makes parameters and computes with them."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import MISSING, dataclass, field, fields
from hashlib import blake2b
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, cast

import plugrad
from plugrad.extend import HALVES, ArgumentError, ShapeError, explain_wrong_calls
from plugrad_nn.absent import MISSING_ATTRIBUTE_HINTS
from plugrad_nn.arguments import check_integer, check_integers
from plugrad_nn.parameters import Params, as_variables, assign_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from plugrad import Tensor
    from plugrad.extend import DType
    from plugrad.random import Generator


MomentsFunction: TypeAlias = "Callable[[Tensor, tuple[int, ...]], tuple[Tensor, Tensor]]"
"""A function of a tensor and axes that returns the mean and the variance over them."""


class Mode:
    """The mode in which a layer is called. `INFERENCE`, the only instance of this class, changes nothing.

    A layer that contains others passes ``mode[name]`` on to each, with the name under which its
    parameters have theirs.
    """

    is_training: bool = False

    def __getitem__(self, name: str) -> Mode:
        """Return the mode for the layer called `name`."""
        return self


INFERENCE = Mode()
"""The mode without randomness, in which statistics are used and not collected."""


@dataclass(frozen=True)
class Training(Mode):
    """The mode of one training step: dropout drops, and batches are normalized by their own statistics.

    >>> model = nn.Sequential(nn.BatchNorm(), nn.Dropout(0.5))
    >>> params = model.init(0, (3,))
    >>> training = nn.Training(seed=7)
    >>> model(params, plugrad.ones((2, 3)), training).shape
    (2, 3)
    >>> training.commit(params)  # the moving statistics have moved

    Random numbers depend on the seed and on the name of the layer, and on nothing else: the same
    parameters, input and seed give the same result, also when `plugrad.checkpoint` computes it again.
    Give each step another seed, such as its number. In a function for `plugrad.jit`, give a function of the
    seed, such as ``lambda: optimizer.iterations``: a traced program asks it in each of its calls.

    Args:
        seed: an integer, 0 or more, or a function without arguments that returns one.
        moments: a function of a tensor and axes that returns the mean and the variance over these axes, for a
            batch of which this process has a part only, as ``dist.moments``; by default those of the tensor.

    Raises:
        ArgumentError: the seed is not an integer.
        ArgumentValueError: it is negative.
    """

    seed: int | Callable[[], int]
    path: tuple[str, ...] = ()
    updates: Params = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The new statistics, as a nested dict with some of the parameters' names."""
    moments: MomentsFunction | None = field(default=None, compare=False, repr=False)
    is_training = True

    def __post_init__(self) -> None:
        if not callable(self.seed):
            check_integer("Training", "seed", self.seed)

    def __getitem__(self, name: str) -> Training:
        """Return the mode for the layer called `name`, which has random numbers of its own."""
        return Training(self.seed, (*self.path, name), self.updates, self.moments)

    def generator(self) -> Generator:
        """Return the random number generator of this layer for this step, at its beginning."""
        seed, path = self.seed, self.path
        if callable(seed):
            # What a trace keeps must not keep `updates`.
            return plugrad.random.Generator(lambda: _derive_seed(seed(), path))
        return plugrad.random.Generator(_derive_seed(seed, path))

    def update(self, **values: Tensor) -> None:
        """Queue new values for parameters of this layer, which `commit` assigns."""
        node = self.updates
        for name in self.path:
            node = node.setdefault(name, {})
        node.update(values)

    def commit(self, params: Mapping[str, Any]) -> None:
        """Assign the queued values to the model's variables.

        Raises:
            ArgumentError, ShapeError: the parameters are not those of the model that was called.
        """
        assign_named("Training.commit", params, self.updates)


def _derive_seed(seed: int, path: tuple[str, ...]) -> int:
    """Return the seed of a layer, derived from the seed of the step and the layer's path."""
    text = f"{check_integer('Training', 'seed', seed)}/{'/'.join(path)}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class Child(NamedTuple):
    """A layer inside another one, or a function used as a layer."""

    name: str
    step: Any
    """The layer or function."""
    params: Params
    """The parameters of the layer."""
    shape: Any
    """The shape of one input, or the shapes of several."""
    result: tuple[int, ...] | None
    """The shape of one result of the layer; None for a part, which no other layer follows."""


class LayerType(ABCMeta):
    """The metaclass of layers, which explains wrong constructor arguments."""

    if not TYPE_CHECKING:  # type checkers know the arguments

        @property
        def __signature__(cls) -> Signature:
            """The arguments of the layer, which `help` and editors show instead of those of `__call__`."""
            of_init = signature(cls.__init__)
            return of_init.replace(
                parameters=[*of_init.parameters.values()][1:], return_annotation=Signature.empty
            )

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Return a layer.

            Raises:
                ArgumentError: there is no such argument, or one is missing.
            """
            try:
                return super().__call__(*args, **kwargs)
            except TypeError:
                explain_wrong_calls(cls.__init__)(object.__new__(cls), *args, **kwargs)
                raise


def make_empty_batch(shape: Any) -> Any:
    """Return an empty batch of examples of a shape, or several for a list or tuple of shapes."""
    parts: list[Any] = list(shape)
    if parts and isinstance(parts[0], tuple | list):
        several = [make_empty_batch(part) for part in parts]
        return tuple(several) if isinstance(shape, tuple) else several
    return plugrad.zeros((0, *parts))


def example_shape(result: Any) -> Any:
    """Return the shape of one example in a batched result, or of each in several results."""
    if isinstance(result, tuple):
        several: list[Any] = list(cast("tuple[Any, ...]", result))
        return tuple(map(example_shape, several))
    return result.shape[1:]


class Layer(metaclass=LayerType):
    """A description that creates parameters, and a pure function of parameters and input.

    A subclass is a frozen dataclass. It implements ``__call__``, and `build` if it has parameters, or `parts` if they
    are those of other layers.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Scale(nn.Layer):
    ...     factor: float = 1.0
    ...
    ...     def build(self, generator, shape, dtype):
    ...         return {"scale": plugrad.full(shape[-1:], self.factor, dtype=dtype)}
    ...
    ...     def __call__(self, params, x, mode=nn.INFERENCE):
    ...         return x * params["scale"]
    >>> layer = Scale(2.0)
    >>> params = layer.init(0, (3,))
    >>> layer(params, plugrad.ones((1, 3)))
    tensor([[2., 2., 2.]], dtype=float32)
    """

    if not TYPE_CHECKING:  # type checkers know the arguments and the attributes

        def __init_subclass__(cls) -> None:
            if "__call__" in vars(cls):
                cls.__call__ = explain_wrong_calls(cls.__call__)

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an AttributeError; for methods of other frameworks, name the replacement."""
            remedy = f": {MISSING_ATTRIBUTE_HINTS[name]}" if name in MISSING_ATTRIBUTE_HINTS else ""
            kind = type(self).__name__
            raise AttributeError(
                f"{kind!r} object has no attribute {name!r}{remedy}", name=name, obj=self
            )

    @abstractmethod
    def __call__(self, params: Params, x: Any, mode: Mode = INFERENCE) -> Tensor:
        """Return the result for a batch of inputs.

        Args:
            params: what `init` returned, or a nested dict of tensors with the same names.
            x: a batch; its first axis has the examples.
            mode: `INFERENCE`, or a `Training` for one step.
        """

    def init(self, seed: int | Generator, shape: Any, dtype: Any = None) -> Params:
        """Return new parameters: a nested dict of variables, on the active backend.

        >>> {name: variable.shape for name, variable in nn.Dense(2).init(0, (3,)).items()}
        {'kernel': (3, 2), 'bias': (2,)}

        The same seed gives the same values on every backend.

        Args:
            seed: an integer, 0 or more, or the generator to draw from.
            shape: the shape of one input, without the axis of the batch.
            dtype: the dtype of the parameters, a floating one; by default float32.

        Raises:
            ArgumentError, ArgumentValueError: the seed or the shape is not one, or the dtype is not
                floating.
            ShapeError: the layer does not take inputs of this shape.
        """
        name = type(self).__name__
        sizes = self.check_shape(shape)
        floats = plugrad.float32 if dtype is None else plugrad.as_dtype(dtype)
        if not plugrad.isdtype(floats, "real floating"):
            raise ArgumentError(f"{name}.init: dtype={floats} must be floating, such as float32")
        if not isinstance(seed, plugrad.random.Generator):
            seed = plugrad.random.Generator(check_integer(f"{name}.init", "seed", seed))
        return as_variables(self.build(seed, sizes, floats))

    def check_shape(self, shape: Any) -> Any:
        """Check and return the shape of one example.

        Raises:
            ArgumentError, ArgumentValueError: it is not a tuple of integers, 0 or more.
        """
        return check_integers(f"{type(self).__name__}.init", "shape", shape)

    def children(self, params: Params, shape: Any) -> list[Child]:
        """Return the layers inside this one, if there are any."""
        return []

    def parts(self, shape: Any) -> dict[str, tuple[Layer, Any]]:
        """Return the layers whose parameters belong to this one, by name, each with its input shape."""
        return {}

    def build(self, generator: Generator, shape: tuple[int, ...], dtype: DType) -> Params:
        """Return the initial parameters as tensors; by default those of the parts.

        A `Variable` that is not trainable holds statistics.
        """
        return {
            name: layer.build(generator, own, dtype)
            for name, (layer, own) in self.parts(shape).items()
        }

    def output_shape(self, params: Params, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the output shape for one example, computed with an empty batch."""
        return example_shape(self(params, make_empty_batch(shape)))

    def check_mode(self, mode: object) -> None:
        """Raise unless `mode`, the third argument of a call of the layer, is a mode such as "training".

        Raises:
            ArgumentError: it is not.
        """
        if not isinstance(mode, Mode):
            raise ArgumentError(
                f"{type(self).__name__}: the third argument is the mode of the call, nn.Training(seed) for a step of "
                f"training or nn.INFERENCE, and not {mode!r:.80}"
            )

    def parameter(self, params: Params, name: str) -> Any:
        """Return the parameter with a name, or the dict of an inner layer's parameters.

        Raises:
            ArgumentError: there is none.
        """
        if not isinstance(params, dict) or name not in params:  # pyright: ignore[reportUnnecessaryIsInstance] - people pass anything
            found = list(params) if isinstance(params, dict) else type(params).__name__  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(
                f"{type(self).__name__}: the parameters do not have {name!r}, but {found}; pass what "
                "init of this layer returned"
            )
        return params[name]

    def add_bias(self, y: Tensor, bias: Tensor) -> Tensor:
        """Add a bias, in the half-precision dtype that an `autocast` block has given the product."""
        return y + (bias.astype(y.dtype) if y.dtype in HALVES else bias)

    def check_axes(self, shape: tuple[int, ...], axes: int, names: str) -> None:
        """Raise unless one example has the required number of axes, or at least one if `axes` is 0.

        Raises:
            ShapeError: it has not.
        """
        if len(shape) != axes if axes else not shape:
            raise ShapeError(
                f"{type(self).__name__}: one input must have the axes {names}, without the axis of the "
                f"batch; its shape is {shape}"
            )

    def __repr__(self) -> str:
        """Return the constructor call of the layer, without arguments that have their default."""
        parts: list[str] = []
        for f in fields(self):  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - subclasses are dataclasses
            value = getattr(self, f.name)
            shown = getattr(value, "__name__", None) or repr(value)
            if f.default is MISSING:
                parts.append(shown)
            elif value != f.default:
                parts.append(f"{f.name}={shown}")
        return f"{type(self).__name__}({', '.join(parts)})"
