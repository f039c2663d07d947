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


class Backwards:
    """A flat array from the last element to the first, and the shape that it stands for."""

    def __init__(self, values):
        """Turn a NumPy array around."""
        self.shape = values.shape
        self.dtype = as_dtype(values.dtype)
        self.elements = values.reshape(-1)[::-1].copy()

    @property
    def values(self):
        """The elements in their order."""
        return self.elements[::-1].reshape(self.shape)


def on_values(function):
    """Return an implementation that works on a NumPy function's arrays."""
    return lambda *inputs, **attrs: Backwards(
        np.asarray(function(*[x.values for x in inputs], **attrs))
    )


def two(function):
    """Return an implementation of two inputs."""
    run = on_values(function)
    return lambda a, b: run(a, b)


table.update({binary.add: two(np.add), binary.multiply: two(np.multiply)})


@table.implements(reduction.sum)
def sum_(x, *, axis, keep_dims):
    """Return the sum."""
    return Backwards(np.asarray(x.values.sum(axis=axis, keepdims=keep_dims, dtype=x.values.dtype)))


@table.implements(movement.reshape)
def reshape(x, *, shape):
    """Return the elements in another shape."""
    return Backwards(x.values.reshape(shape))


@table.implements(movement.broadcast_to)
def broadcast_to(x, *, shape):
    """Return the elements repeated."""
    return Backwards(np.broadcast_to(x.values, shape))


@table.implements(creation.ones_like)
def ones_like(x):
    """Return ones."""
    return Backwards(np.ones_like(x.values))


class Toy(Backend):
    """The backend ``"toy"``."""

    name = "toy"

    def devices(self):
        """Return the one device."""
        return (DeviceInfo("0", "an array that runs backwards"),)

    def probe(self):
        """Return yes."""
        return Probe(ok=True, devices=self.devices())

    def open(self, device):
        """Return the kernels."""
        self.device = "0"
        return table

    def dtypes(self):
        """Return what it stores."""
        return frozenset({float32, int32, bool_})

    def from_numpy(self, array):
        """Turn an array around."""
        return Backwards(array)

    def to_numpy(self, array):
        """Turn it back."""
        return array.values.copy()

    def synchronize(self):
        """Return at once."""

    def memory(self):
        """Count nothing."""
        return Memory(0, 0, 0, self.limit)

    def set_memory_limit(self, limit):
        """Keep the limit for `make_room`."""
        self.limit = limit

    def make_room(self, size):
        """Refuse what is larger than the limit."""
        if self.limit is not None and size > self.limit:
            raise OutOfMemory(f"{size} bytes are more than the limit of {self.limit}")

    def close(self):
        """Return at once."""


def backend():
    """Return the toy."""
    return Toy()
