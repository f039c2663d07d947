"""A backend whose arrays hold their elements backwards, so that nobody else can read them by mistake."""

import numpy as np

from plugrad.extend import (
    Backend,
    DeviceInfo,
    KernelTable,
    Memory,
    OutOfMemory,
    Probe,
    as_dtype,
    bool_,
    float32,
    int32,
)
from plugrad.kernels import binary, creation, movement, reduction

table = KernelTable("toy")


class ReversedArray:
    """An array stored as a flat list in reverse order, with its shape."""

    def __init__(self, values):
        """Turn a NumPy array around."""
        self.shape = values.shape
        self.dtype = as_dtype(values.dtype)
        self.elements = values.reshape(-1)[::-1].copy()

    @property
    def values(self):
        """The elements in their order."""
        return self.elements[::-1].reshape(self.shape)


def implement_with_numpy(function):
    """Return an implementation that applies a NumPy function."""
    return lambda *inputs, **attrs: ReversedArray(
        np.asarray(function(*[x.values for x in inputs], **attrs))
    )


def implement_binary(function):
    """Return an implementation of a kernel with two inputs."""
    run = implement_with_numpy(function)
    return lambda a, b: run(a, b)


table.update({binary.add: implement_binary(np.add), binary.multiply: implement_binary(np.multiply)})


@table.implements(reduction.sum)
def sum_(x, *, axis, keep_dims):
    """Return the sum of the elements along axes."""
    return ReversedArray(
        np.asarray(x.values.sum(axis=axis, keepdims=keep_dims, dtype=x.values.dtype))
    )


@table.implements(movement.reshape)
def reshape(x, *, shape):
    """Return the elements in another shape."""
    return ReversedArray(x.values.reshape(shape))


@table.implements(movement.broadcast_to)
def broadcast_to(x, *, shape):
    """Return the elements repeated."""
    return ReversedArray(np.broadcast_to(x.values, shape))


@table.implements(creation.ones_like)
def ones_like(x):
    """Return an array of ones."""
    return ReversedArray(np.ones_like(x.values))


class Toy(Backend):
    """The backend ``"toy"``."""

    name = "toy"

    def devices(self):
        """Return the only device."""
        return (DeviceInfo("0", "an array that runs backwards"),)

    def probe(self):
        """Return that the backend can start."""
        return Probe(ok=True, devices=self.devices())

    def open(self, device):
        """Return the kernels."""
        self.device = "0"
        return table

    def dtypes(self):
        """Return the supported dtypes."""
        return frozenset({float32, int32, bool_})

    def from_numpy(self, array):
        """Return an array in reversed storage."""
        return ReversedArray(array)

    def to_numpy(self, array):
        """Return the elements of an array in order."""
        return array.values.copy()

    def synchronize(self):
        """Return at once."""

    def memory(self):
        """Return zeros, because memory is not counted."""
        return Memory(0, 0, 0, self.limit)

    def set_memory_limit(self, limit):
        """Store the limit, which `make_room` checks."""
        self.limit = limit

    def make_room(self, size):
        """Raise if an allocation is larger than the limit."""
        if self.limit is not None and size > self.limit:
            raise OutOfMemory(f"{size} bytes are more than the limit of {self.limit}")

    def close(self):
        """Return at once."""


def backend():
    """Return the toy backend."""
    return Toy()
