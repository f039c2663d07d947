"""Every public callable of plugrad, each as a function that calls it once with random arguments."""

from __future__ import annotations

import inspect
import operator
from contextlib import AbstractContextManager, suppress
from functools import partial

import numpy as np

import plugrad
from plugrad import optimizers
from plugrad.discovery.state import fresh_state
from plugrad.extend import KERNELS
from plugrad.registry import transaction
from plugrad.testing.checks import as_tensors
from plugrad.testing.tables import rows
from properties.calls import CALLS, FLOATS as F, public_ops
from properties.fuzz_values import OwnError, as_tensor, raise_own_error

UNCALLED_NAMES = {
    "__dir__": "takes no argument",
    "__getattr__": "an unknown name is an AttributeError, as in Python",
    "image.write_png": "writes files",
    "tfjs.GraphModel": "load_graph_model makes it",
    "losses.Reduction": "a type for annotations",
    "optimizers.Optimizer": "abstract; its methods are those of the others",
    "random.default": "an object; its methods are those of random.Generator",
}


def public_callables():
    """Return the public callables by name, without errors and `plugrad.extend`."""
    found = {n: getattr(plugrad, n) for n in dir(plugrad) if callable(getattr(plugrad, n))}
    for space in (n for n in dir(plugrad) if inspect.ismodule(getattr(plugrad, n))):
        if space not in ("errors", "extend", "kernels"):
            page = getattr(plugrad, space)
            found |= {f"{space}.{n}": getattr(page, n) for n in dir(page) if n[0] != "_"}
    return {n: f for n, f in found.items() if callable(f) and n not in UNCALLED_NAMES}


# --- ops: a right call, of which some arguments are others ---------------------------------------


def mutate_arguments(call, values, optional):
    """Return arguments similar to valid ones; optional ones may be omitted."""
    args, kwargs = call
    rng = values.rng
    few = 1 / (len(args) + len(kwargs) or 1)
    chance = rng.choice([few, few, 0.5, 1.0])

    def drawn(right):
        if rng.random() < chance:
            return values.mutated(right)
        is_tensor = hasattr(right, "dtype") and hasattr(right, "shape") and rng.random() < 0.8
        return as_tensor(right, values.homes[0]) if is_tensor else right

    given = {n: drawn(x) for n, x in kwargs.items() if n not in optional or rng.random() < 0.8}
    if isinstance(given.get("device"), str) and given["device"] == "cpu":
        given["device"] = values.homes[0]
    return [drawn(x) for x in args], given


def optional_parameters(function):
    """Return the names of the arguments that have a default."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.default is not p.empty}


def op_target(function, call):
    optional = optional_parameters(function)

    def target(values):
        args, kwargs = mutate_arguments(call, values, optional)
        return function, args, kwargs

    return target


def traced_target(function, call):
    """Return a target that calls an op in a traced function, whose inputs are the tensors and arrays."""
    optional = optional_parameters(function)

    def target(values):
        args, kwargs = mutate_arguments(call, values, optional)
        places = [i for i, x in enumerate(args) if isinstance(x, plugrad.Tensor | np.ndarray)]

        def compute(*inputs):
            given = dict(zip(places, inputs, strict=True))
            return function(*[given.get(i, x) for i, x in enumerate(args)], **kwargs)

        def run(*args, **kwargs):
            jitted, inputs = plugrad.jit(compute), [args[i] for i in places]
            for _ in range(2):
                jitted(*inputs)

        return run, args, kwargs

    return target


# --- functions without a right call: any arguments that fit the signature -------------------------


def call_target(called, /, **choices):
    """Return a target that draws each argument from given choices, or any value."""
    parameters = [
        p for p in inspect.signature(called).parameters.values() if p.kind is not p.VAR_KEYWORD
    ]

    def target(values):
        rng = values.rng
        args, kwargs = [], {}
        for p in parameters:
            known = choices.get(p.name, [])
            if p.kind is p.VAR_POSITIONAL:
                args += [values.anything() for _ in range(rng.randrange(4))]
                continue
            if p.default is not p.empty and rng.random() < 0.4:
                if p.kind is p.KEYWORD_ONLY:
                    continue
                break
            if known and rng.random() < 0.7:
                value = rng.choice(known)
            elif p.name == "function":
                value = values.function()
            elif any(map(callable, known)):
                value = values.replace_function()
            else:
                value = values.anything()
            if p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = value
            else:
                args.append(value)
        return called, args, kwargs

    return target


def compose(target, follow):
    """Return a target that applies a function to the result of another target."""

    def both(values):
        function, args, kwargs = target(values)
        return (lambda *a, **k: follow(function(*a, **k), values)), args, kwargs

    return both


def call_result(result, values):
    """Call the function that a transform returned with any arguments."""
    if callable(result):
        kwargs = {"dy": values.anything()} if values.rng.random() < 0.2 else {}
        result = result(
            *[float_arguments(values) for _ in range(values.rng.randrange(4))], **kwargs
        )
    if isinstance(result, tuple) and len(result) == 2 and callable(result[1]):
        result[1](values.anything())


def use_jitted(result, values):
    """Call the function that `jit` returned twice, differentiate it, or inspect its graph."""
    if not callable(result):
        return
    if isinstance(result, partial):
        result = result(values.function())
    args = [values.anything() for _ in range(values.rng.randrange(3))]
    choice = values.rng.randrange(5)
    if choice == 0:
        plugrad.grad(result)(*[float_arguments(values) for _ in range(3)])
    elif choice == 1:
        result.explain(*args)
    elif choice == 2:
        result.graph(*args)
    else:
        for _ in range(2):
            result(*args)


def in_context(target):
    """Return a target that is called directly, in a traced function, or in a differentiated one."""

    def in_some_context(values):
        function, args, kwargs = target(values)
        choice = values.rng.randrange(3)

        def compute(x):
            results = function(*args, **kwargs)
            return plugrad.sum(x * first_floating(results))

        def call(*args, **kwargs):
            if choice == 0:
                function(*args, **kwargs)
            elif choice == 1:
                plugrad.jit(lambda: function(*args, **kwargs))()
            else:
                plugrad.jit(plugrad.grad(compute))(plugrad.ones(()))

        return call, args, kwargs

    return in_some_context


def first_floating(results):
    """Return the first floating-point tensor in nested results, or 1."""
    if isinstance(results, plugrad.Tensor) and plugrad.isdtype(results.dtype, "real floating"):
        return results
    if isinstance(results, dict):
        results = list(results.values())
    parts = results if isinstance(results, list | tuple) else []
    found = [y for y in map(first_floating, parts) if isinstance(y, plugrad.Tensor)]
    return found[0] if found else 1.0


def with_own_errors(function):
    """Return a function that raises `OwnError` in place of errors other than plugrad's."""

    def called(*args):
        try:
            return function(*args)
        except plugrad.errors.PlugradError:
            raise
        except Exception as error:
            raise OwnError from error

    return called


SCAN_FUNCTIONS = [
    with_own_errors(lambda carry, x: (carry, x)),
    with_own_errors(lambda carry, x: (carry * 2.0, carry)),
    with_own_errors(lambda carry, x: (carry + plugrad.random.normal(2), x)),
    with_own_errors(lambda carry, x: (carry, plugrad.sum(carry) if carry is x else None)),
    with_own_errors(lambda carry, x: carry),
]
COND_BRANCHES = [
    with_own_errors(lambda *args: args),
    with_own_errors(lambda x: x * 2.0),
    with_own_errors(lambda x: x[0]),
]
WHILE_BODIES = [
    with_own_errors(lambda x: x * 0.5),
    with_own_errors(lambda x: x * 0.1),
    with_own_errors(lambda x: x[:1] * 0.5),
]


def initial_carries():
    """Return initial values of loops."""
    return [F, 1.0, {"a": F, "b": (1.0,)}, plugrad.asarray(F), plugrad.Variable(F)]


def call_scan(values):
    choices = {"init": initial_carries(), "xs": [F, [F, F], {"a": F}, None], "length": [2, None, 0]}
    return call_target(plugrad.scan, function=SCAN_FUNCTIONS, **choices)(values)


def call_cond(values):
    flags = [True, plugrad.asarray(False), 1.0]
    return call_target(plugrad.cond, flag=flags, yes=COND_BRANCHES, no=COND_BRANCHES)(values)


def call_while_loop(values):
    """Return a call of `while_loop` that terminates."""
    rng = values.rng
    if rng.random() < 0.6:
        args = [
            with_own_errors(lambda x: plugrad.sum(x) > 1),
            rng.choice(WHILE_BODIES),
            rng.choice(initial_carries()),
        ]
        return plugrad.while_loop, args, {}
    flag = rng.choice([False, plugrad.asarray(False), plugrad.asarray([True, False]), None, "text"])
    never = rng.choice([lambda carry: flag, lambda: flag, raise_own_error, 1])
    return plugrad.while_loop, [with_own_errors(never), values.function(), values.anything()], {}


def float_arguments(values):
    """Return arguments of a function to differentiate, or any values."""
    right = values.rng.choice([F, 2.0, [1.0, 2.0], {"a": F, "b": (1.0,)}, plugrad.Variable(F)])
    return values.mutated(right) if values.rng.random() < 0.4 else right


def enter_and_exit(result, values):
    """Enter and exit a context manager."""
    if isinstance(result, AbstractContextManager) or hasattr(result, "__enter__"):
        with result:
            plugrad.ones(2)


def restoring_target(target):
    """Return a target that restores the registries and the plugins of this process afterwards."""

    def safe(values):
        function, args, kwargs = target(values)

        def call(*args, **kwargs):
            restore = transaction.snapshot_registries()
            try:
                with fresh_state():
                    return function(*args, **kwargs)
            finally:
                restore()

        return call, args, kwargs

    return safe


def custom_grad_arguments(values):
    """Return a function that calls `custom_grad`, with arguments that are almost valid."""
    anything = values.anything()
    gradient = values.rng.choice([anything, lambda *args: anything, lambda dy, saved: dy])
    value = values.rng.choice([anything, F, plugrad.asarray(F)])
    result = values.rng.choice([(value, gradient), (value, gradient, 1), value, [value, gradient]])

    def function(*args):
        if values.rng.random() < 0.5:
            args[-1](values.anything())
        return result

    def call(function, *args):
        custom = plugrad.custom_grad(function)
        custom(*args)
        plugrad.grad(lambda x: plugrad.sum(custom(x)))(plugrad.asarray(F))

    return call, [values.rng.choice([function, function, anything]), values.anything()], {}


def random_variables(values):
    """Return some variables, or any values."""
    right = [plugrad.Variable(F), plugrad.Variable(1.0, trainable=values.rng.random() < 0.7)]
    return values.mutated(right) if values.rng.random() < 0.5 else right


def variable_grads_arguments(values):
    """Return a call of `variable_grads` of a function that may use the variables."""
    given = random_variables(values)
    known = [v for v in given if isinstance(v, plugrad.Tensor)] if type(given) is list else []
    loss = values.rng.choice([lambda: plugrad.add_n([plugrad.sum(v * v) for v in known])] * 3)
    function = loss if values.rng.random() < 0.6 else values.function()
    return plugrad.variable_grads, [function, given], {"allow_unused": values.anything()}


def optimizer_target(kind):
    """Return a target that makes an optimizer and takes a step, or calls another method."""
    make = call_target(kind, learning_rate=[0.1, lambda step: 0.1], beta1=[0.9], beta2=[0.9])

    def step(result, values):
        given = random_variables(values)
        choice = values.rng.randrange(5 if isinstance(result, optimizers.Optimizer) else 2)
        if choice == 0:
            known = (
                [v for v in given if isinstance(v, plugrad.Tensor)] if type(given) is list else []
            )
            result.minimize(lambda: plugrad.add_n([plugrad.sum(v * v) for v in known]), given)
        elif choice == 1:
            result.minimize(values.function(), given)
        elif choice == 2:
            pairs = [(v, plugrad.ones(2)) for v in given] if type(given) is list else given
            result.apply_gradients(values.rng.choice([pairs, values.anything()]))
        elif choice == 3:
            result.get_state(given)
        else:
            state = {"iterations": 1, "variables": [{"steps": 1}, {"steps": 1}]}
            state[values.rng.choice(["iterations", "variables"])] = values.anything()
            result.set_state(given, values.rng.choice([state, state, values.anything()]))

    return compose(make, step)


# --- methods and operators of tensors ------------------------------------------------------------
# Not those of protocols, whose callers expect the errors of NumPy (__array__) or DLPack (__dlpack__).

BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift lt le gt ge eq ne"
TENSOR_METHODS = (
    "astype to to_device reshape sum mean max min argmax square squared_difference item tolist numpy "
    "dispose __float__ __int__ __complex__ __bool__ __index__ __len__ __repr__ "
    "__copy__ __deepcopy__ __iter__ __neg__ __abs__ __invert__ __setitem__ "
    "__array_namespace__ __hash__ __reduce__"
)


TYPES_WITH_OWN_OPERATORS = str, bytes, bytearray, np.ma.MaskedArray  # their own operators decide


def binary_target(function):
    def target(values):
        pair = [values.tensor(), values.anything()]
        if values.rng.random() < 0.4 and not isinstance(pair[1], TYPES_WITH_OWN_OPERATORS):
            pair.reverse()
        return function, pair, {}

    return target


def method_target(name):
    def target(values):
        x = plugrad.Variable(values.tensor()) if values.rng.random() < 0.1 else values.tensor()
        bound = getattr(x, name)
        parameters = [
            p
            for p in inspect.signature(bound).parameters.values()
            if p.kind not in (p.VAR_KEYWORD, p.KEYWORD_ONLY)
        ]
        return bound, [values.anything() for _ in parameters], {}

    return target


def subscript_arguments(values):
    key = values.anything()
    if values.rng.random() < 0.5:
        key = tuple(values.anything() for _ in range(values.rng.randrange(4)))
    return operator.getitem, [values.tensor(), key], {}


def transposed_arguments(values):
    x = values.tensor()
    return (lambda x: (x.T, x.mT)), [x], {}


def assignment_arguments(values):
    variable = plugrad.Variable(values.tensor())
    return variable.assign, [values.mutated(variable.numpy())], {}


def generator_target(name):
    """Return a target that calls a method of a generator; the valid call is that of `plugrad.random`."""

    def target(values):
        made = plugrad.random.Generator(values.rng.randrange(3))
        if name == "__init__":
            return plugrad.random.Generator, [values.anything()], {}
        if name == "state":
            key = values.rng.choice(["algorithm", "key", "counter"])
            state = made.state | {key: values.anything()}
            state = values.rng.choice([state, state, values.anything()])
            return (lambda state: setattr(made, "state", state)), [state], {}
        call = CALLS.get(f"random.{name}", ([2], {}))
        function = getattr(made, name)
        args, kwargs = mutate_arguments(call, values, optional_parameters(function))
        return function, args, kwargs

    return target


def file_target(function, **choices):
    """Return a target that may also raise an OSError."""

    def call(*args, **kwargs):
        with suppress(OSError):
            function(*args, **kwargs)

    def target(values):
        _, args, kwargs = call_target(function, **choices)(values)
        return call, args, kwargs

    return target


# --- kernels and settings ------------------------------------------------------------------------


def run_kernel_arguments(values):
    """Return a call of `run_kernel` with the inputs and attributes of a conformance case, or others."""
    row = values.rng.choice(CONFORMANCE_ROWS)
    dtype = row.tested_dtypes[0]
    try:
        inputs = as_tensors(row.draw_inputs(dtype))
    except plugrad.errors.UnsupportedDtype:
        inputs = [plugrad.ones(2)]
    kernel, attrs = row.kernel, row.kernel.fill_defaults(row.attributes(dtype))
    if values.rng.random() < 0.5 and inputs:
        inputs[values.rng.randrange(len(inputs))] = values.anything()
    if values.rng.random() < 0.5 and attrs:
        attrs[values.rng.choice(list(attrs))] = values.anything()
    named = dict(zip(kernel.inputs, inputs, strict=False))
    inputs = inputs if kernel.is_variadic else named
    args = [kernel.name, inputs, attrs]
    if values.rng.random() < 0.3:
        args[values.rng.randrange(3)] = values.anything()
    return plugrad.run_kernel, args, {}


def setting_target(name):
    """Return a target that calls a method of `plugrad.config`; its changes are undone."""

    def target(values):
        known = [s.key for s in plugrad.config if not s.key.startswith("plugins")]
        key = values.rng.choice([*known, "acme.x", values.anything()])
        args = [key] if name not in ("set", "override") else [key, values.anything()]

        def call(*args):
            try:
                enter_and_exit(getattr(plugrad.config, name)(*args), values)
            finally:
                plugrad.config.reset()

        return call, args, {}

    return target


CONFORMANCE_ROWS = [row for row in rows() if not row.is_edge]
KERNEL_NAMES = ["Add", "Multiply", "Concat", "Exp", "Nope", "My"]
CONFIGS = [
    plugrad.KernelConfig("My", "cpu", lambda x: x),
    plugrad.KernelConfig("Add", "cpu", len),
    plugrad.GradientConfig("My", lambda dy, saved: {"x": lambda: dy}),
    KERNELS["Add"],
]
TRANSFORMS = "grad grads value_and_grad jacobian hessian checkpoint vjp carry_context hookimpl"
REGISTRATIONS = (
    "register_kernel unregister_kernel copy_registered_kernels register_gradient "
    "unregister_gradient get_kernel get_kernels_for_backend get_gradient register_backend "
    "register_plugin unregister_plugin close_backend op_pack"
)


def make_targets():
    """Return the fuzz targets by the names of the functions that they call."""
    ops, found = public_ops(), {}
    for name, call in CALLS.items():
        found[name], found[f"{name}, traced"] = (
            op_target(ops[name], call),
            traced_target(ops[name], call),
        )
    for name in TRANSFORMS.split():
        found[name] = compose(
            call_target(getattr(plugrad, name), argnums=[0, -1, (0, 1)]), call_result
        )
    for name, target in {
        "scan": call_scan,
        "cond": call_cond,
        "while_loop": call_while_loop,
    }.items():
        found[name] = in_context(target)
    found["jit"] = compose(call_target(plugrad.jit), use_jitted)
    names = {"kernel_name": KERNEL_NAMES, "backend_name": ["cpu", "acme"], "config": CONFIGS}
    names |= {"source": ["cpu"], "target": ["acme"], "x": [lambda dy: dy]}
    for name in REGISTRATIONS.split():
        found[name] = restoring_target(call_target(getattr(plugrad, name), **names))
    for name in ("override_kernel", "override_gradient"):
        found[name] = restoring_target(
            compose(call_target(getattr(plugrad, name), **names), enter_and_exit)
        )
    found["use"] = compose(call_target(plugrad.use, spec=["cpu", "cpu:0", "acme"]), enter_and_exit)
    found["tidy"] = compose(call_target(plugrad.tidy), lambda made, values: made(values.function()))
    found["tidy.keep"] = call_target(lambda x: plugrad.tidy().keep(x))
    found["custom_grad"] = custom_grad_arguments
    found["variable_grads"] = variable_grads_arguments
    found["run_kernel"] = run_kernel_arguments
    found["jvp"] = call_target(plugrad.jvp, args=[(F,), (1.0, 2.0)], tangents=[(F,), (1.0, 2.0)])
    found["Variable"] = call_target(plugrad.Variable, trainable=[True, False])
    found["Variable.assign"] = assignment_arguments
    found["set_memory_limit"] = call_target(
        lambda limit: (plugrad.set_memory_limit(limit), plugrad.set_memory_limit(None))
    )
    found["set_memory_limit (backend)"] = call_target(
        lambda b: plugrad.set_memory_limit(None, backend=b)
    )
    for name in ("clip_by_value", "clip_by_norm", "clip_by_global_norm"):
        right = [F, F], 1.0
        found[f"optimizers.{name}"] = op_target(getattr(optimizers, name), (right, {}))
    for name, kind in vars(optimizers).items():
        if inspect.isclass(kind) and f"optimizers.{name}" not in UNCALLED_NAMES:
            found[f"optimizers.{name}"] = (
                optimizer_target(kind) if hasattr(kind, "minimize") else call_target(kind)
            )
    for name in BINARY.split():
        found[f"operator.{name}"] = binary_target(getattr(operator, name))
    for name in TENSOR_METHODS.split():
        found[f"Tensor.{name}"] = method_target(name)
    found["Tensor[]"], found["Tensor.T"] = subscript_arguments, transposed_arguments
    drawing = [n for n in dir(plugrad.random.Generator) if n[0] != "_"]
    for name in ["__init__", *drawing]:
        found[f"random.Generator.{name}"] = generator_target(name)
    for name in ("get", "set", "explain", "options", "override"):
        found[f"config.{name}"] = setting_target(name)
    found["image.read_png"] = file_target(plugrad.image.read_png, channels=[1, 3, 4])
    kept = {"path": ["kept"], "tree": [{"a": F, "b": [1, None]}, plugrad.Variable(F)]}
    for name in ("save", "load"):
        found[name] = file_target(getattr(plugrad, name), **kept)
    for name in ("read_weights", "write_weights"):
        weights = {"path": ["weights"], "weights": [{"a": F}], "manifest": ["weights/model.json"]}
        found[f"tfjs.{name}"] = file_target(getattr(plugrad.tfjs, name), **weights)
    found["tfjs.load_graph_model"] = file_target(plugrad.tfjs.load_graph_model, folder=["weights"])
    found["tfjs.read_model"] = file_target(plugrad.tfjs.read_model)
    info = plugrad.__array_namespace_info__()
    for name in ("default_dtypes", "dtypes"):
        found[f"__array_namespace_info__.{name}"] = call_target(getattr(info, name), device=["cpu"])
    for name, function in public_callables().items():
        if name not in found:
            found[name] = call_target(function)
    return found


__all__ = ["OwnError", "make_targets", "public_callables"]
