"""Kernels: the vocabulary that ops, gradients and backends share.

A `Kernel` is a contract: a name, inputs, attributes and a rule that derives the outputs' shapes and
dtypes from the inputs' without looking at values. It is callable: ``unary.exp(x)`` runs it on the
backend where `x` lives.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from sys import maxsize
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    overload,
)

from plugrad.contract import annotations
from plugrad.contract.parameters import inspect_parameters
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    AxisError,
    DTypeError,
    OutOfMemory,
    RegistrationError,
    ShapeError,
    short_repr,
    suggest_similar_name,
)
from plugrad.settings import journal
from plugrad.types.arguments import check_string as checked_text, explain_wrong_calls
from plugrad.types.dtype import ANY, DType, as_dtype, equivalents, float32, string
from plugrad.types.specs import Shaped, Spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set

    from plugrad.contract.description import ContractDescription
    from plugrad.tensor.backend import Backend
    from plugrad.tensor.tensor import Tensor

MAX_AXES: Final = 64
"""The maximum number of axes of a NumPy array."""

MAX_CACHED_OUTPUTS: Final = 1024
"""The most inferred outputs that each kernel caches."""

ParameterTypes = ParamSpec("ParameterTypes")
ResultType = TypeVar("ResultType", covariant=True)


_run_kernel: Callable[..., Any]
"""The engine's function that runs a kernel."""
_compile_call: Callable[[Kernel[..., Any]], Callable[..., Any]]
"""The engine's function that compiles the function `Kernel.call` of a kernel."""


def set_dispatcher(
    dispatcher: Callable[..., Any], compile_call: Callable[..., Callable[..., Any]]
) -> None:
    """Set how kernels are run. The engine, which imports this module, calls this on its own import."""
    global _run_kernel, _compile_call
    _run_kernel, _compile_call = dispatcher, compile_call


class ValidatedAttributes(dict[str, Any]):
    """Attributes that a contract has validated for certain inputs; see `Kernel.validate_attributes`."""

    __slots__ = ()


class _DocstringDescriptor:
    """The docstring of the class and, on an instance, its contract in words, which `help` shows."""

    def __init__(self, own: str | None) -> None:
        self.own = own

    def __get__(self, kernel: Kernel[..., Any] | None, _: type) -> str | None:
        return self.own if kernel is None else str(kernel.description)


class Kernel(Generic[ParameterTypes, ResultType]):
    """A named computation that backends promise, and its shape rule.

    The engine enforces the contract before an implementation runs. For an *elementwise* kernel without
    attributes it checks only the dtypes; shapes that do not broadcast are reported when the
    implementation fails, because checking them takes as long as a small tensor's arithmetic.

    ``help`` shows the contract of a kernel, and `inspect.signature` the signature of its rule.
    """

    __doc__ = _DocstringDescriptor(__doc__)  # pyright: ignore[reportAssignmentType] - `str` on every access

    # The engine reads these for every call: plain attributes are faster than properties. A class of `dataclasses` would
    # take ten times as long to make, at every import of plugrad.
    def __init__(
        self,
        name: str,
        rule: Callable[ParameterTypes, Spec | tuple[Spec, ...]],
        family: str,
        is_elementwise: bool = False,
        dynamic_shape: bool = False,
        accepts: frozenset[DType] = ANY,
    ) -> None:
        """Create a contract; `declare_contract` registers it."""
        positional, keyword, defaults, takes_list = inspect_parameters(rule)
        self.name: Final = name
        self.rule: Final = rule
        self.__wrapped__: Final = rule
        self.family: Final = family
        self.is_elementwise: Final = is_elementwise
        self.dynamic_shape: Final = dynamic_shape
        self.accepts: Final = accepts
        """The dtypes that the first input may have, and all inputs of an elementwise kernel."""
        self.accepted_dtypes: Final[Set[object]] = equivalents(accepts)
        """The same as plugrad and NumPy dtypes, because backend arrays carry either."""
        self.fast_dtype: Final[object] = float32.numpy if float32 in accepts else None
        """NumPy's float32 if the kernel accepts it; an `is` test is faster than a look-up in the set above."""
        self.inputs: Final[tuple[str, ...]] = positional
        """The names of the inputs; the last one may stand for a list of them."""
        self.attributes: Final[tuple[str, ...]] = keyword
        """The names of the attributes."""
        self.takes_list: Final[bool] = takes_list
        """Whether the last name stands for a list of inputs."""
        self.attribute_count: Final[int] = len(keyword)
        self.input_count: Final[int] = len(positional) - takes_list
        """The number of inputs, without those in a list."""
        self.inputs_vary: Final[bool] = takes_list or any(
            defaults.get(n, n) is None for n in positional
        )
        """Whether calls differ in their inputs, because there is a list of them or some are optional."""
        self.result_dtypes: Final[dict[tuple[object, type], DType]] = {}
        """A cache of result dtypes, by the dtype of a tensor and the type of a Python number."""
        self._defaults: Final[Mapping[str, Any]] = defaults
        self._inferred: Final[dict[tuple[Any, ...], Any]] = {}
        """What `infer` has returned, by the shapes, the dtypes and the attributes."""

        def compile_and_call(*args: Any) -> Any:
            self.call = _compile_call(self)
            return self.call(*args)

        self.call: Callable[..., ResultType] = compile_and_call
        """What the engine compiles for the kernel, at its first call; see `plugrad.engine.dispatch.compile_call`.

        Ops call it with `ValidatedAttributes` attributes, or with none after comparing dtypes. Inputs that vary are one
        sequence.
        """

    def __call__(self, *inputs: ParameterTypes.args, **attrs: ParameterTypes.kwargs) -> ResultType:
        """Run the kernel on the backend of its inputs; without inputs, on the active backend."""
        return _run_kernel(self, inputs, attrs)

    def on(self, backend: Backend, **attrs: Any) -> ResultType:
        """Run a kernel without inputs on `backend`."""
        return _run_kernel(self, (), attrs, backend)

    def __repr__(self) -> str:
        return f"<kernel {self.name} ({self.family})>"

    def input_name(self, index: int) -> str:
        """Return the name of the input at a position."""
        last = len(self.inputs) - 1
        if index >= last and self.takes_list:
            return f"{self.inputs[last]}[{index - last}]"
        return self.inputs[index]

    @cached_property
    def description(self) -> ContractDescription:
        """The contract in words, from the docstrings of its rule and of the rule's module."""
        from plugrad.contract.description import describe_contract

        return describe_contract(self.name, self.rule, self.accepts, self.is_elementwise)

    @cached_property
    def optional_inputs(self) -> frozenset[str]:
        """The names of the inputs that may be None."""
        known = self._defaults
        return frozenset(n for n in self.inputs if n in known and known[n] is None)

    @cached_property
    def attribute_names(self) -> frozenset[str]:
        """The set of the names of the attributes."""
        return frozenset(self.attributes)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default values of the optional attributes, by name."""
        return {n: self._defaults[n] for n in self.attributes if n in self._defaults}

    @property
    def is_variadic(self) -> bool:
        """Whether the kernel takes only a list of inputs, as Concat does."""
        return self.takes_list and len(self.inputs) == 1

    @cached_property
    def annotations(self) -> dict[str, Any]:
        """The type annotations of the attributes, by name."""
        said = getattr(self.rule, "__annotations__", {})  # a ufunc does not have any
        return {name: said[name] for name in self.attributes if name in said}

    def fill_defaults(self, attrs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes with the defaults filled in.

        Raises:
            ArgumentError: an attribute is unknown or missing.
        """
        completed = {**self.defaults, **attrs}
        if completed.keys() != self.attribute_names:
            unknown = sorted(completed.keys() - set(self.attributes))
            missing = sorted(set(self.attributes) - completed.keys())
            meant = suggest_similar_name(unknown[0], self.attributes) if unknown else ""
            raise ArgumentError(
                f"{self.name}: unknown attributes {unknown}{meant}, missing attributes {missing}; it "
                f"takes {list(self.attributes)}"
            )
        return completed

    def check_attributes(self, attrs: Mapping[str, Any]) -> None:
        """Raise unless every attribute matches its annotation in the contract.

        Raises:
            ArgumentError: one is of another kind.
            ArgumentValueError: one is a string that is not among the choices.
        """
        for name, annotation in self.annotations.items():
            if name in attrs and not annotations.matches_annotation(attrs[name], annotation):
                error = ArgumentValueError if isinstance(attrs[name], str) else ArgumentError
                raise error(
                    f"{self.name}: {name}={short_repr(attrs[name])} must be "
                    f"{annotations.describe_annotation(annotation)}"
                )

    def normalize_axes(self, attrs: Mapping[str, Any], rank: int) -> dict[str, Any]:
        """Return attributes with their axes as sorted nonnegative indices; see `Axis`."""
        said = self.annotations
        return {
            n: annotations.normalize_axis_attribute(v, said.get(n), rank, f"{self.name}: {n}")
            for n, v in attrs.items()
        }

    def infer(self, *inputs: Any, **attrs: Any) -> Any:
        """Return the output's `Shaped`, or a tuple of them, for inputs of these shapes and dtypes.

        Inputs are anything with a shape and a dtype: tensors, backend arrays, `Shaped`. Results are
            cached.

        Raises:
            ShapeError: the inputs' shapes do not satisfy the contract.
            DTypeError: the inputs' dtypes do not.
            ArgumentError, ArgumentValueError: an attribute does not fit the contract.
        """
        return self.infer_cached(inputs, attrs)

    def validate_attributes(self, *inputs: Any, **attrs: Any) -> ValidatedAttributes:
        """Return validated attributes for inputs of these shapes and dtypes; raise what `infer` raises.

        An op caches the result by shapes and dtypes, and passes it to the engine, which then does
        not validate the call again.
        """
        completed = self.fill_defaults(attrs)
        self.infer_cached(inputs, completed)
        return ValidatedAttributes(completed)

    def infer_cached(self, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Return the outputs' shapes and dtypes, as `infer` does, from a cache of earlier calls."""
        if len(inputs) == 1 and (x := inputs[0]) is not None:
            key: tuple[Any, ...] = (x.shape, x.dtype, *attrs.items())
        elif len(inputs) == 2 and (a := inputs[0]) is not None and (b := inputs[1]) is not None:
            key = (a.shape, a.dtype, b.shape, b.dtype, *attrs.items())
        elif inputs:
            described = [None if x is None else (x.shape, x.dtype) for x in inputs]
            key = (*described, *attrs.items())
        else:
            key = tuple(attrs.items())
        try:
            found = self._inferred.get(key)
        except TypeError as unhashable:
            if "unhashable" not in str(unhashable):
                raise
            raise ArgumentError(
                f"{self.name}: attributes must be hashable (a tuple, not a list): {short_repr(attrs)}"
            ) from None
        if found is None:
            found = _infer_outputs(self, inputs, attrs)
            if len(self._inferred) >= MAX_CACHED_OUTPUTS:
                self._inferred.clear()
            self._inferred[key] = found
        return found


def _infer_outputs(
    kernel: Kernel[..., Any], inputs: Sequence[Any], attrs: Mapping[str, Any]
) -> Any:
    """Check the inputs and attributes, then return the outputs that the kernel's rule derives."""
    specs = [None if x is None else Shaped(x.shape, as_dtype(x.dtype)) for x in inputs]
    for x in specs if kernel.is_elementwise else specs[:1]:
        if x is not None:
            check_dtype(kernel.name, x, kernel.accepts)
    completed = kernel.fill_defaults(attrs)
    kernel.check_attributes(completed)
    settled = (
        kernel.normalize_axes(completed, len(specs[0].shape)) if specs and specs[0] else completed
    )
    for name, value in completed.items():
        if value is not settled[name] and value != settled[name]:
            raise AxisError(
                f"{kernel.name}: {name}={value} must be {settled[name]} for a kernel; only ops and "
                "run_kernel count from the end"
            )
    try:
        outputs: Any = kernel.rule(*specs, **completed)
    except (ShapeError, AxisError, ArgumentValueError) as error:
        if kernel.name in str(error):
            raise
        raise type(error)(f"{kernel.name}: {error}") from None
    for x in [outputs] if hasattr(outputs, "dtype") else outputs:
        if len(x.shape) > MAX_AXES:
            raise ShapeError(
                f"{kernel.name}: a result of shape {x.shape} has {len(x.shape)} axes; NumPy, which reads and "
                f"stores the values, has at most {MAX_AXES}; reshape the input to fewer axes"
            )
        if not kernel.dynamic_shape and min(x.shape, default=0) < 0:
            raise ShapeError(f"{kernel.name}: a result of shape {x.shape} has a negative size")
        if prod(x.shape) * x.dtype.itemsize > maxsize:
            raise OutOfMemory(
                f"{kernel.name}: a result of shape {x.shape} is larger than the address space"
            )
    return outputs


def check_dtype(name: str, x: Spec, accepts: frozenset[DType]) -> DType:
    """Return the dtype of `x`, or raise if `accepts` does not contain it.

    Raises:
        DTypeError: it is not.
    """
    if x.dtype not in equivalents(accepts):
        remedy = "Cast the input with astype"
        if x.dtype is string:
            remedy = "Strings do not convert to numbers"
        elif string in accepts:
            remedy = "Numbers become strings in Python, as in str(number)"
        raise DTypeError(
            f"{name} does not take {x.dtype}; it takes {', '.join(sorted(map(str, accepts)))}. {remedy}"
        )
    return x.dtype


def check_same_dtype(name: str, *inputs: Spec) -> DType:
    """Return the dtype that all inputs share, or raise if they differ.

    Raises:
        DTypeError: they differ.
    """
    dtypes = list(dict.fromkeys(x.dtype for x in inputs))
    if len(dtypes) > 1:
        raise DTypeError(
            f"{name}: the inputs have dtypes {', '.join(map(str, dtypes))}; cast them to one with astype"
        )
    return dtypes[0]


KERNELS: Final[dict[str, Kernel[..., Any]]] = {}
"""The declared contracts, by registry name; `get_contract` and `all_contracts` know those of all families."""

_load_all_contracts: Callable[[], None] | None = None
"""The function that imports every family of plugrad's own contracts; None until `set_loader` is called."""


def set_loader(loader: Callable[[], None]) -> None:
    """Set the function that imports every family of plugrad's own contracts."""
    global _load_all_contracts
    _load_all_contracts = loader


def all_contracts() -> dict[str, Kernel[..., Any]]:
    """Return all contracts by registry name, importing the families that have not been imported yet."""
    global _load_all_contracts
    if _load_all_contracts is not None:
        _load_all_contracts()
        _load_all_contracts = None
    return KERNELS


def get_contract(name: str) -> Kernel[..., Any] | None:
    """Return the contract of a kernel, or None."""
    return KERNELS.get(name) or all_contracts().get(name)


def declare_contract(
    contract: Kernel[ParameterTypes, ResultType],
) -> Kernel[ParameterTypes, ResultType]:
    """Add a contract to `KERNELS` and return it.

    Raises:
        RegistrationError: another contract has the name.
    """
    if getattr(contract.rule, "__module__", "") == f"plugrad.kernels.{contract.family}":
        # It belongs to no plugin, whoever uses its family first; and an import that was interrupted is repeated.
        known = KERNELS.get(contract.name)
        if known is None or known.family == contract.family:
            KERNELS[contract.name] = contract
            return contract
    elif get_contract(contract.name) is None and journal.add_table_entry(
        KERNELS, contract.name, contract, "contract"
    ):
        return contract
    raise RegistrationError(f"kernel {contract.name!r} is declared twice; choose another name")


_ATTRIBUTE_TYPE_NAMES: Final = (
    "bool",
    "int",
    "float",
    "complex",
    "str",
    "DType",
    "Literal",
    "tuple",
    "list",
)
"""The beginnings of annotations that only attributes have, and no inputs."""


def _check_parameter_kinds(kernel: Kernel[..., Any]) -> None:
    """Raise if a rule takes an input by keyword, or an attribute by position, according to the annotations.

    Raises:
        RegistrationError: the message names the parameter.
    """
    name, said = kernel.name, getattr(kernel.rule, "__annotations__", {})
    for parameter in (*kernel.inputs, *kernel.attributes):
        annotation = said.get(parameter, "")
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        if parameter in kernel.inputs and text.startswith(_ATTRIBUTE_TYPE_NAMES):
            raise RegistrationError(
                f"kernel {name}: {parameter}: {text} stands where the inputs stand; attributes are keyword-only, so "
                f"write * before them, as in (x: Spec, *, {parameter}: {text})"
            )
        if parameter in kernel.attributes and text == "Spec":
            raise RegistrationError(
                f"kernel {name}: {parameter}: Spec stands where the attributes stand; write inputs before the *, "
                f"as in ({parameter}: Spec, *, axis: int)"
            )


class _KernelDecorator(Protocol):
    """The type of `kernel`'s decorator: the rule's parameters stay, and its result becomes a tensor."""

    @overload
    def __call__(
        self, rule: Callable[ParameterTypes, Spec], /
    ) -> Kernel[ParameterTypes, Tensor]: ...
    @overload
    def __call__(
        self, rule: Callable[ParameterTypes, tuple[Spec, ...]], /
    ) -> Kernel[ParameterTypes, list[Tensor]]: ...


@explain_wrong_calls
def kernel(
    name: str,
    *,
    family: str = "",
    is_elementwise: bool = False,
    dynamic_shape: bool = False,
    accepts: frozenset[DType] = ANY,
) -> _KernelDecorator:
    """Declare a kernel by its shape rule; the rule's docstring is the contract.

    The rule's positional parameters are the inputs and its keyword-only parameters the attributes.
    The family is the name of the module unless it is given.

    >>> @kernel("Twice", family="example")
    ... def twice(x: Spec) -> Spec:
    ...     return x
    >>> twice.infer(Shaped((2,), as_dtype("float32"))).shape
    (2,)
    """
    if callable(name):
        raise ArgumentError('kernel takes a name: write @kernel("Name") above the rule')
    checked_text(name, "kernel", "name")

    def decorate(rule: Callable[..., Any]) -> Kernel[..., Any]:
        room = family or rule.__module__.rpartition(".")[2]
        contract: Kernel[..., Any] = Kernel(
            name, rule, room, is_elementwise, dynamic_shape, accepts
        )
        _check_parameter_kinds(contract)
        return declare_contract(contract)

    return decorate
