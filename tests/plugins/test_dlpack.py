"""DLPack exchanges a backend's own arrays with other libraries without copying them to the host."""

import textwrap
from contextlib import ExitStack

import numpy as np
import pytest

import plugrad
from plugrad.errors import ArgumentError, BackendFailed, DeviceLost, UnsupportedDtype

BACKEND_TEMPLATE = """
    import numpy as np
    from plugrad.extend import Backend, DeviceLost, KernelTable, Memory, Probe, as_dtype, float32
    from plugrad.kernels import binary

    class Held:
        "An array that only its backend understands."

        def __init__(self, values):
            self.values, self.shape, self.dtype = values, values.shape, as_dtype(values.dtype)

    table = KernelTable("{name}")
    table.update({{binary.add: lambda a, b: Held(a.values + b.values)}})

    class Exchanging(Backend):
        name = "{name}"
        device = "0"
        read = 0

        def probe(self):
            return Probe(ok=True)

        def open(self, device):
            return table

        def dtypes(self):
            return frozenset({{float32}})

        def from_numpy(self, array):
            return Held(array.copy())

        def to_numpy(self, array):
            self.read += 1
            return array.values.copy()

        def synchronize(self):
            pass

        def memory(self):
            return Memory(0, 0, 0)

        def set_memory_limit(self, limit):
            pass

        def close(self):
            pass

        {methods}

    def backend():
        return Exchanging()
"""

HOST_DLPACK_METHODS = """
def dlpack_device(self):
    return 1, 0

def to_dlpack(self, array, *, copy, stream, max_version):
    values = array.values.copy() if copy else array.values.view()
    values.flags.writeable = False
    return values.__dlpack__(max_version=max_version)

def from_dlpack(self, source, *, copy):
    return Held(np.from_dlpack(source, copy=copy))
"""
"""Arrays in host memory, which NumPy can check from outside."""

DEVICE_DLPACK_METHODS = """
def dlpack_device(self):
    return 12, 3

def to_dlpack(self, array, *, copy, stream, max_version):
    if stream == "busy":
        raise BufferError("the stream is busy")
    if stream == "unplugged":
        raise DeviceLost("somebody has unplugged it")
    return "capsule", array.values.copy() if copy else array.values, stream

def from_dlpack(self, source, *, copy):
    kind, values, stream = source.__dlpack__(copy=copy, max_version=(1, 0))
    if values.size == 13:
        raise BufferError("13 elements are too many")
    return Held(values) if values.size != 14 else None
"""
"""Arrays on a device of its own, whose capsules only it understands."""


class ForeignArray:
    """An array of another library on the same device."""

    def __init__(self, values):
        self.values = np.asarray(values, "float32")

    def __dlpack_device__(self):
        return 12, 3

    def __dlpack__(self, *, copy=None, max_version=None, **others):
        if max_version is None:  # a consumer that does not know the device
            raise BufferError("only on its device")
        return "capsule", self.values.copy() if copy else self.values, None


@pytest.fixture
def install_backend(site):
    """A function that installs and opens a backend with given methods; it is active until the test ends."""

    def install(name, methods):
        source = textwrap.dedent(BACKEND_TEMPLATE).format(
            name=name, methods=textwrap.indent(methods, "    ").strip()
        )
        site.install(name, source)
        return stack.enter_context(plugrad.use(name)).backend

    with ExitStack() as stack:
        yield install


def test_no_copy_either_way_in_host_memory(install_backend):
    backend = install_backend("exchanging", HOST_DLPACK_METHODS)
    x = plugrad.asarray([1.0, 2.0])
    assert x.__dlpack_device__() == (1, 0)
    shared = np.from_dlpack(x, copy=False)
    assert np.shares_memory(shared, x.array.values)
    assert not shared.flags.writeable
    assert not np.shares_memory(np.from_dlpack(x), x.array.values)
    source = np.asarray([3.0, 4.0], "float32")
    y = plugrad.from_dlpack(source, copy=False)
    assert y.backend is backend
    assert np.shares_memory(y.array.values, source)
    assert not np.shares_memory(plugrad.from_dlpack(source).array.values, source)
    assert plugrad.from_dlpack(source, device="cpu").device == "cpu:0"
    assert backend.read == 0
    assert (x + y).tolist() == [4, 6]


def test_no_copy_either_way_on_a_device(install_backend):
    backend = install_backend("exchanging", DEVICE_DLPACK_METHODS)
    x = plugrad.asarray([1.0, 2.0])
    assert x.__dlpack_device__() == (12, 3)
    assert x.__dlpack__(copy=False, max_version=(1, 0), stream=7) == ("capsule", x.array.values, 7)
    for copied in (x.__dlpack__(), x.__dlpack__(copy=True), x.__dlpack__(copy=False)):
        assert not np.shares_memory(copied[1], x.array.values)
    foreign = ForeignArray([3.0, 4.0])
    with plugrad.use("cpu"):  # the values decide, not the active backend
        y = plugrad.from_dlpack(foreign, copy=False)
    assert y.backend is backend
    assert y.array.values is foreign.values
    assert plugrad.from_dlpack(foreign).array.values is not foreign.values
    assert (x + y).tolist() == [4, 6]
    assert backend.read == 1
    assert np.from_dlpack(np.asarray(x)).tolist() == [
        1,
        2,
    ]  # through the host, if that is asked for
    host = x.__dlpack__(dl_device=(1, 0))
    assert "dltensor" in repr(host)


def test_invalid_dlpack_calls_are_rejected(install_backend):
    install_backend("exchanging", DEVICE_DLPACK_METHODS)
    x = plugrad.asarray([1.0, 2.0])
    with pytest.raises(BufferError, match=r"dl_device=\(2, 0\) must be \(12, 3\)"):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="the stream is busy"):
        x.__dlpack__(stream="busy")
    with pytest.raises(ArgumentError, match="does not take this ForeignArray: 13 elements"):
        plugrad.from_dlpack(ForeignArray(range(13)))
    with pytest.raises(BackendFailed, match=r"from_dlpack\(\) of backend 'exchanging' .* None"):
        plugrad.from_dlpack(ForeignArray(range(14)))
    wide = ForeignArray([1.0])
    wide.values = wide.values.astype("float64")
    with pytest.raises(UnsupportedDtype, match="float64"):
        plugrad.from_dlpack(wide)
    with pytest.raises(ArgumentError, match="on the device of an open backend that reads DLPack"):
        plugrad.from_dlpack(ForeignArray([1.0]), device="cpu")
    with pytest.raises(DeviceLost, match="unplugged"):
        x.__dlpack__(stream="unplugged")
    with pytest.raises(ArgumentError, match="host memory"):
        plugrad.from_dlpack(ForeignArray([1.0]))  # the backend that could is lost


def test_error_for_invalid_dlpack_results_names_the_backend(install_backend):
    install_backend("unclear", "def dlpack_device(self):\n    return 'gpu'")
    x = plugrad.asarray([1.0])
    with pytest.raises(BackendFailed, match=r"dlpack_device\(\) of backend 'unclear' .*'gpu'"):
        x.__dlpack_device__()
    install_backend("unfinished", "def dlpack_device(self):\n    return 12, 3")
    with pytest.raises(BackendFailed, match=r"to_dlpack\(\) of backend 'unfinished'"):
        plugrad.asarray([1.0]).__dlpack__()
    with pytest.raises(BackendFailed, match=r"from_dlpack\(\) of backend 'unfinished'"):
        plugrad.from_dlpack(ForeignArray([1.0]), device="unfinished")
