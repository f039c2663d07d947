"""Values that nobody expects as an argument, made anew for each call because some of them can be used up."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np

import plugrad
from plugrad.types.dtype import DTYPES


class OwnError(Exception):
    """The error that the code of an argument raises; a call may pass it on."""


class MeaninglessObject:
    """An object that is not valid as any argument."""

    def __init__(self, *args, **kwargs):
        pass


class RaisingObject:
    """An object whose special methods raise `OwnError`."""

    def fail(self, *args, **kwargs):
        raise OwnError

    __array__ = __index__ = __float__ = __len__ = __iter__ = __getitem__ = __call__ = fail


class LyingObject:
    """An object whose special methods return values of wrong types."""

    def nonsense(self, *args, **kwargs):
        return "nonsense"

    __array__ = __index__ = __float__ = __len__ = __iter__ = __getitem__ = nonsense


class EndlessSequence:
    """An infinite sequence."""

    def __iter__(self):
        return itertools.count()


def return_none(*args, **kwargs):
    return None


def return_arguments(*args, **kwargs):
    return args


def raise_own_error(*args, **kwargs):
    raise OwnError


def nested_list(depth):
    inner = 1
    for _ in range(depth):
        inner = [inner]
    return inner


def endless_list():
    x = []
    x.append(x)
    return x


def disposed_tensor():
    x = plugrad.ones(3)
    x.dispose()
    return x


NUMBERS = [
    *(0, 1, 2, 3, 5, 7, 33, -1, -2, -7, 255, 1000, -1000, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1),
    *(
        2**32,
        2**40,
        -(2**40),
        2**63 - 1,
        2**63,
        -(2**63),
        2**64,
        2**70,
        -(2**70),
        10**400,
        10**5000,
    ),
    *(0.0, -0.0, 0.5, 1.5, 2.0, -3.5, 1e-300, 1e30, 1e300, -1e300, math.nan, math.inf, -math.inf),
    *(1j, 2 - 3j, complex(math.nan, math.inf), complex(math.inf, 0), complex(1e300, 1), 0j),
    *(True, False, Fraction(1, 3), np.float32(1.5), np.float16(math.nan), np.float64(math.inf)),
    *(np.int8(-1), np.int64(1), np.uint64(2**64 - 1), np.complex64(1j), np.bool_(True)),
    *(np.longdouble(2), np.datetime64("2020-01-01"), np.timedelta64(3, "D"), np.str_("text")),
]
TEXTS = [
    *("", "text", "float32", "float33", "string", "object", "cpu", "cpu:7", "wasm", "acme", "a\0b"),
    *("nope::cpu", "same", "valid", "mean", "nearest", "\ud800", "é" * 300, "%s{}", "ij,jk->ik"),
    *("...i->i", "->", "(", "[a-", b"", b"bytes", b"\xff", bytearray(b"ab"), memoryview(b"abc")),
]
OTHER_VALUES = [
    *(
        None,
        None,
        Ellipsis,
        NotImplemented,
        object,
        MeaninglessObject,
        int,
        str,
        type,
        len,
        print,
        math,
    ),
    *(slice(None), slice(0, 2), slice(None, None, -1), slice("a", 1.5), slice(2**70, None, 2**70)),
    *(np.dtype("float32"), np.dtype("O"), np.dtype("i4,f4"), np.dtype("<U3"), np.float64, np.add),
    *DTYPES,
]
COLLECTIONS = [
    *([], (), [None], ["a"], [1.5], [[1]], [[]], [[1, 2]], [[1, 2], [3]], (1,) * 7, (2,) * 70),
    *((-1, -1), (0, 0), (0,), (1,), (-1,), (0, 1), (1, 0), (1, 2, 3), (2, 3), (2**70,), (2**31, 2)),
    *((2**31, 2**31), (2**16,) * 4, (math.inf,), (math.nan, 1), (np.inf, 2), (1.0, 2.0), (True, 2)),
    *([1, "a"], [1j, 2], [[1, 1], [2, 2]], [(0, 1), (1, 0)], [(-1, -1), (0, 0)], [[1.0], [1.0, 2]]),
    *([b"a", "b"], [None, 1], [{}], range(3), range(0), range(2**40), range(3, -1, -1)),
    *(
        {},
        {"a": 1},
        {1: 2},
        {1},
        frozenset({0}),
        {"x": [1.0]},
        [MeaninglessObject()],
        (MeaninglessObject(),),
        [object()],
    ),
]
ARRAYS = [
    np.array(1),
    np.array(math.nan),
    np.ones(0),
    np.ones((0, 3), "float32"),
    np.ones((2, 0, 2), "int32"),
    np.ones(3, "float32"),
    np.arange(6.0).reshape(2, 3),
    np.arange(24, dtype="float32").reshape(2, 3, 4)[:, ::-1],
    np.array([3, -1, 2**31 - 1], "int32"),
    np.array([2**63 - 1, -(2**63)]),
    np.array([[True, False, True]] * 2),
    np.array([None, 1], object),
    np.array([10**400, 1], object),
    np.array(["a", "bc"]),
    np.array(["a", "bc"], np.dtypes.StringDType()),
    np.array([b"a", b"\xff"]),
    np.array(["2020-01-01", "NaT"], "datetime64[D]"),
    np.array([1, 2], "timedelta64[s]"),
    np.zeros(2, "i4,f4"),
    np.ones(2, np.longdouble),
    np.ones(2, np.clongdouble),
    np.ones((2, 2), ">f4"),
    np.ones(3, "float16"),
    np.ones((1,) * 33, "float32"),
    np.ones((1,) * 64, "int8"),
    np.array([math.inf, -math.inf, math.nan, -0.0, 1e-45], "float32"),
    np.array([1 + 1j, complex(math.nan, 0)], "complex64"),
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.broadcast_to(np.float32(1), (300, 300)),
]
VALUE_FACTORIES = [
    MeaninglessObject,
    RaisingObject,
    LyingObject,
    EndlessSequence,
    disposed_tensor,
    endless_list,
    lambda: nested_list(70),
    lambda: nested_list(5000),
    lambda: (n for n in (1, 2)),
    lambda: iter([]),
    lambda: map(str, "ab"),
    lambda: zip([1], [2], strict=True),
    itertools.count,
    lambda: [1] * 50_000,
    lambda: plugrad.Variable([1.0, 2.0]),
    lambda: [plugrad.ones(2), plugrad.ones(2)],
    lambda: (plugrad.ones(2), None),
    lambda: {"w": plugrad.ones(2), "b": [plugrad.ones(1)]},
    lambda: plugrad.Variable(1.0, trainable=False),
]
CALLABLES = [return_none, return_arguments, raise_own_error, MeaninglessObject, RaisingObject()]


class RandomValues:
    """Random values; tensors are made on `backend`, and some on `other`."""

    def __init__(self, rng, backend, other):
        self.rng = rng
        self.homes = [backend] * 8 + [other]

    def tensor(self):
        """Return a random tensor of any dtype, usually small."""
        values = self.rng.choice(ARRAYS)
        try:
            return plugrad.asarray(values, device=self.rng.choice(self.homes))
        except plugrad.errors.PlugradError:  # the backend does not have the dtype
            shape = self.rng.choice([(), (0,), (3,), (2, 3), (1, 2, 2, 1)])
            return plugrad.ones(shape, dtype=self.rng.choice(["float32", "int32", "bool"]))

    def anything(self):
        """Return any value."""
        kind = self.rng.randrange(12)
        if kind < 2:
            return self.tensor()
        if kind == 2:
            return self.rng.choice(VALUE_FACTORIES)()
        if kind == 3:
            return self.collection()
        pools = {4: TEXTS, 5: OTHER_VALUES, 6: COLLECTIONS, 7: COLLECTIONS, 8: ARRAYS}
        return self.rng.choice(pools.get(kind, NUMBERS))

    def collection(self):
        """Return a collection of random values."""
        form = self.rng.choice([list, tuple, lambda parts: dict(enumerate(parts)), iter])
        return form([self.anything() for _ in range(self.rng.randrange(4))])

    def replace_function(self):
        """Return any value in place of a function, except NumPy's functions, which raise their own errors."""
        value = self.anything()
        return return_arguments if callable(value) else value

    def function(self):
        """Return a function of any arguments, which returns anything, or now and then no function."""
        kind = self.rng.randrange(8)
        if kind == 0:
            return self.replace_function()
        if kind == 1:
            return self.rng.choice(CALLABLES)
        value = self.anything()
        return self.rng.choice(
            [
                lambda *args, **kwargs: value,
                lambda *args, **kwargs: args,
                lambda *args, **kwargs: args[0] if args else value,
                lambda *args, **kwargs: _sum_of_arguments(args, kwargs, value),
            ]
        )

    def mutated(self, right):
        """Return a value similar to a valid one, or any value."""
        if callable(right) and not isinstance(right, type):
            return self.function()
        if self.rng.random() < 0.5:
            return self.anything()
        if isinstance(right, np.ndarray):
            return self.near_array(right)
        if isinstance(right, list | tuple) and right:
            return self.near_list(right)
        if isinstance(right, bool | str) or not isinstance(right, int | float):
            return self.anything()
        return self.rng.choice([right + 1, right - 1, -right, right * 1.5, float(right), [right]])

    def near_array(self, right):
        """Return an array or a tensor that differs from a valid one in dtype, shape or values."""
        x = right
        if self.rng.random() < 0.4 and x.dtype.kind != "T":
            dtype = self.rng.choice([d.numpy for d in DTYPES if d != "string"])
            x = np.abs(x).astype(dtype) if x.dtype.kind != "b" else x.astype(dtype)
        if self.rng.random() < 0.5:
            forms = [lambda: x[None], lambda: x[:0], lambda: x[..., None], lambda: x.T]
            forms += [lambda: x[0], lambda: x[..., :1], lambda: np.concatenate([x, x])] * x.ndim
            x = np.asarray(self.rng.choice(forms)() if x.size and x.ndim else x)
        if self.rng.random() < 0.3 and x.dtype.kind in "iuf":
            extreme = [math.nan, math.inf, -1e30] if x.dtype.kind == "f" else [0, 1, 100]
            extreme += [-1, -100, 2**31 - 1] if x.dtype.kind == "i" and x.itemsize > 2 else []
            x = np.full(x.shape, self.rng.choice(extreme), x.dtype)
        if self.rng.random() < 0.2:
            return np.asarray(x).tolist()
        return as_tensor(x, self.rng.choice(self.homes)) if self.rng.random() < 0.8 else x

    def near_list(self, right):
        """Return a sequence with an added, removed or replaced element."""
        parts, place = list(right), self.rng.randrange(len(right))
        change = self.rng.randrange(4)
        if change == 0:
            del parts[place]
        elif change == 1:
            parts.insert(place, parts[place])
        else:
            parts[place] = self.mutated(parts[place])
        return type(right)(parts) if type(right) in (list, tuple) and change < 3 else iter(parts)


def _sum_of_arguments(args, kwargs, value):
    """Return a scalar that depends on each tensor among the arguments."""
    parts = [plugrad.sum(x * x) for x in args if isinstance(x, plugrad.Tensor)]
    return plugrad.add_n(parts) if parts else value


def as_tensor(x, device=None):
    """Return an array as a tensor if the backend supports its dtype."""
    try:
        return plugrad.asarray(x, device=device)
    except plugrad.errors.PlugradError:
        return x
