"""A wrong keyword of an op is an ArgumentError, which names the right one."""

import inspect

import pytest

import plugrad
from plugrad.errors import ArgumentError
from plugrad.types.arguments import KEYWORDS_OF_OTHER_FRAMEWORKS, explain_wrong_calls

PUBLIC_PAGES = ("", "fft", "image", "linalg", "losses", "random", "signal", "sparse", "einops")
OPS_AND_KEYWORDS_OF_OTHER_MEANING = {
    ("attention", "weight"),
    ("diagonal", "bias"),
    ("trace", "bias"),
}
"""Pairs of an op and one of its arguments, which has another meaning in other frameworks."""


def find_ops():
    """Yield the functions of the public pages that have an argument which other frameworks call otherwise."""
    for page in PUBLIC_PAGES:
        module = getattr(plugrad, page) if page else plugrad
        for name in dir(module):
            function = getattr(module, name)
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            parameters = inspect.signature(function).parameters
            for wrong, right in KEYWORDS_OF_OTHER_FRAMEWORKS.items():
                known = [r for r in right if r in parameters]
                if (
                    (name, wrong) in OPS_AND_KEYWORDS_OF_OTHER_MEANING
                    or has_var_keyword(parameters)
                    or wrong in parameters
                ):
                    continue
                if known:
                    yield pytest.param(function, wrong, known[0], id=f"{page}.{name} {wrong}")


def has_var_keyword(parameters):
    return any(p.kind is p.VAR_KEYWORD for p in parameters.values())


@pytest.mark.parametrize(("op", "wrong", "right"), list(find_ops()))
def test_a_wrong_keyword_names_the_right_one(op, wrong, right):
    given = [
        plugrad.ones((2, 2))
        for p in inspect.signature(op).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    with pytest.raises(ArgumentError, match=f"no argument '{wrong}'.*did you mean '{right}'"):
        op(*given, **{wrong: 0})


def example_op(a, /, b, c=3, *, d, e=5):
    return a, b, c, d, e


def example_op_with_varargs(a, *others, b=2, **more):
    return a, others, b, more


def test_wrapped_function_accepts_the_same_arguments_and_returns_the_same_result():
    wrapped, wrapped_for_any = map(explain_wrong_calls, (example_op, example_op_with_varargs))
    for _ in range(3):
        assert wrapped(1, 2, d=4) == wrapped(1, b=2, d=4) == (1, 2, 3, 4, 5)
        assert (
            wrapped(1, 2, 7, d=None, e=9) == wrapped(1, e=9, d=None, c=7, b=2) == (1, 2, 7, None, 9)
        )
        assert wrapped_for_any(1) == (1, (), 2, {})
        assert wrapped_for_any(1, 2, 3, b=4, c=5) == (1, (2, 3), 4, {"c": 5})
    assert inspect.signature(wrapped) == inspect.signature(example_op)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'a'; write example_op"),
        ((1,), {"d": 4}, "missing a required argument: 'b'"),
        ((1, 2), {}, "missing a required argument: 'd'"),
        ((1, 2, 3, 4), {"d": 4}, "too many positional arguments"),
        ((1, 2), {"d": 4, "f": 5}, "no argument 'f'"),
        ((), {"a": 1, "b": 2, "d": 4}, "'a'"),
    ],
)
def test_a_wrong_call_tells_the_signature(args, kwargs, message):
    wrapped = explain_wrong_calls(example_op)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=message):
            wrapped(*args, **kwargs)
        assert wrapped(1, 2, d=4) == (1, 2, 3, 4, 5)
    with pytest.raises(ArgumentError, match="missing a required argument: 'a'"):
        explain_wrong_calls(example_op_with_varargs)()


def test_type_errors_that_a_wrapped_function_raises_itself_are_unchanged():
    def fail(x):
        raise TypeError(f"not {x}")

    def fail_for_any(*x):
        raise TypeError(f"not {x[0]}")

    for function in map(explain_wrong_calls, (fail, fail_for_any)):
        for _ in range(2):
            with pytest.raises(TypeError, match="not 3") as raised:
                function(3)
            assert not isinstance(raised.value, ArgumentError)


def test_an_argument_that_is_given_twice_is_an_error():
    with pytest.raises(TypeError, match=r"sum\(\) got multiple values for argument 'x'"):
        plugrad.sum(plugrad.ones(2), x=plugrad.ones(2))
