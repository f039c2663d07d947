"""Saving and loading: what comes back, what is refused, and what a kill leaves behind."""

import errno
import json
import math
import os
import re
import signal
import stat
import subprocess
import sys
import types
import weakref

import numpy as np
import pytest
import safetensors.numpy

import plugrad
from plugrad import optimizers
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    BackendFailed,
    DamagedFile,
    DisposedTensor,
    UnsupportedDtype,
)
from plugrad.extend import Backend
from plugrad.saving import checkpoint
from plugrad.types.dtype import DTYPES

NAN = float("nan")


@pytest.fixture
def tree_path(tmp_path):
    return tmp_path / "tree.safetensors"


@pytest.fixture
def save_and_load(tree_path):
    """A function that saves a tree and loads it again."""

    def saved_and_loaded(tree, **options):
        plugrad.save(tree_path, tree)
        return plugrad.load(tree_path, **options)

    return saved_and_loaded


# --- what comes back ------------------------------------------------------------------------------


def test_containers_and_values_come_back_with_their_types(save_and_load):
    values = [None, True, 0, -(2**70), 1.5, -0.0, math.inf, NAN, 1 - 2j, complex(NAN, -math.inf)]
    tree = {"a.b": {}, 0: [], "0": (), "": [((),)], "text": 'ö"\ud800\0', "values": (*values, [1])}
    tree |= dict.fromkeys(("\ud800", "?", "__metadata__", "ö\0"), plugrad.asarray(1.0))
    loaded = save_and_load(tree)
    assert repr(loaded) == repr(tree)
    for leaf in values:
        assert repr(save_and_load(leaf)) == repr(leaf)
    assert (
        repr(save_and_load([np.float32(0.1), np.int8(-3), np.bool_(True)]))
        == "[0.10000000149011612, -3, True]"
    )


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "string"], ids=str)
@pytest.mark.rows("shape", [(), (0,), (2, 3), (2, 0, 3)], ids=str)
def test_dtypes_and_shapes_come_back(save_and_load, dtype, shape, rng):
    values = np.asarray(rng.uniform(-2, 2, shape) * 50).astype(dtype.numpy)
    if dtype.is_inexact and values.size:
        values.flat[:4] = np.array([math.nan, -math.inf, -0.0, 1e-45]).astype(dtype.numpy)
    loaded = save_and_load({"x": plugrad.asarray(values), "y": values})
    assert loaded["x"].dtype is dtype
    assert loaded["x"].shape == loaded["y"].shape == shape
    assert loaded["x"].numpy().tobytes() == values.tobytes()
    assert type(loaded["y"]) is np.ndarray
    assert loaded["y"].dtype == dtype.numpy
    assert loaded["y"].tobytes() == values.tobytes()
    assert loaded["y"].flags.writeable


def test_strings_come_back(save_and_load):
    tree = [plugrad.asarray(x) for x in ([["a", ""], ["ö\0", "😀" * 100]], "alone")]
    tree.append(plugrad.asarray(["x"])[:0])
    for x, y in zip(tree, save_and_load(tree), strict=True):
        assert (y.dtype, y.shape, y.tolist()) == ("string", x.shape, x.tolist())


def test_arrays_of_any_layout_come_back(save_and_load):
    x = np.arange(6.0).reshape(2, 3)
    y = plugrad.asarray(x)
    loaded = save_and_load([x.T, x[:, ::2], x.astype(">f4"), y.T, y[:, ::2]])
    for a, b in zip(loaded, [x.T, x[:, ::2], x.astype("f4"), x.T, x[:, ::2]], strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)
        assert a.dtype == b.dtype.name


def test_variables_and_shared_objects_come_back_as_such(save_and_load):
    w = plugrad.Variable([1.0, 2.0], name="w", trainable=False)
    x = plugrad.asarray(3)
    loaded = save_and_load({"in": w, "out": [w], "x": (x, x), "same values": plugrad.Variable(w)})
    assert type(loaded["in"]) is plugrad.Variable
    assert (loaded["in"].name, loaded["in"].trainable) == ("w", False)
    assert loaded["out"][0] is loaded["in"]
    assert loaded["x"][0] is loaded["x"][1]
    assert loaded["same values"] is not loaded["in"]
    assert (loaded["same values"].name, loaded["same values"].trainable) == ("", True)


def test_tree_may_be_one_tensor(save_and_load):
    assert save_and_load(plugrad.asarray([1.0])).tolist() == [1.0]


def test_tensors_come_back_on_the_device_that_is_chosen(save_and_load, tree_path, backend):
    tree = {
        "x": plugrad.asarray([1.5, -2.0]),
        "n": plugrad.Variable([[1], [2]]),
        "s": plugrad.asarray("a"),
    }
    with plugrad.use("cpu"):
        loaded = save_and_load(tree)  # made on the backend, loaded on cpu
        assert {x.backend.name for x in loaded.values()} == {"cpu"}
        again = save_and_load(loaded, device=backend)  # and conversely
        assert {x.backend.name for x in again.values()} == {backend}
        assert [x.tolist() for x in again.values()] == [[1.5, -2.0], [[1], [2]], "a"]
    assert plugrad.load(tree_path)["x"].backend.name == backend


# --- other programs -------------------------------------------------------------------------------


def test_safetensors_library_reads_saved_files(tree_path):
    x = np.arange(4, dtype="c8")
    plugrad.save(tree_path, {"a": {"b": [plugrad.asarray(x)]}, "a.b": [plugrad.ones(2)], "": 0})
    read = safetensors.numpy.load_file(tree_path)
    assert sorted(read) == ["a.b.0", "a.b.0_"]
    np.testing.assert_array_equal(read["a.b.0"], x)


def test_files_of_other_programs_are_read(tree_path):
    wanted = {"w": np.ones((2, 2), np.float16), "b": np.arange(3)}
    safetensors.numpy.save_file(wanted, tree_path, {"format": "pt"})
    loaded = plugrad.load(tree_path)
    assert {name: (x.dtype, x.tolist()) for name, x in loaded.items()} == {
        "w": ("float16", [[1.0, 1.0], [1.0, 1.0]]),
        "b": ("int64", [0, 1, 2]),
    }


def write_file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def one_tensor_header(code, size):
    return {"x": {"dtype": code, "shape": [2], "data_offsets": [0, 2 * size]}}


def test_bfloat16_tensors_in_files_load_as_float32(tree_path):
    write_file(tree_path, one_tensor_header("BF16", 2), np.array([0x3FC0, 0xFF80], "<u2").tobytes())
    assert plugrad.load(tree_path)["x"].tolist() == [1.5, -math.inf]


def test_error_for_an_unknown_dtype_names_it(tree_path):
    write_file(tree_path, one_tensor_header("F8_E4M3", 1), b"\0\0")
    with pytest.raises(UnsupportedDtype, match=r"'x' is F8_E4M3.*convert it"):
        plugrad.load(tree_path)


# --- what is refused ------------------------------------------------------------------------------


class NamedPair(tuple):
    pass


SELF_CONTAINING_LIST = []
SELF_CONTAINING_LIST.append(SELF_CONTAINING_LIST)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [{1, 2}]}, r"tree\['a'\]\[0\] is \{1, 2\}; save dicts"),
        (NamedPair(), r"subclasses of tuple .* save tuple\(x\)"),
        ({"adam": optimizers.Adam()}, "what its method get_state returns"),
        (plugrad.random.Generator(0), "its attribute state"),
        ({None: 1}, "has the key None; keys must be strings or integers"),
        (np.array([None]), "is an array of object"),
        (np.array(["a"]), r"plugrad.asarray\(x\)"),
        (SELF_CONTAINING_LIST, "contains itself"),
        (b"", "save dicts"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_unsupported_values_are_named_and_leave_the_old_file(tree_path, tree, message):
    plugrad.save(tree_path, 1)
    with pytest.raises(ArgumentError, match=message):
        plugrad.save(tree_path, tree)
    assert plugrad.load(tree_path) == 1
    assert os.listdir(tree_path.parent) == [tree_path.name]


def test_paths_that_name_no_file_are_refused(tmp_path):
    for function in (lambda p: plugrad.save(p, 1), plugrad.load):
        for wrong in (3, b"x", None):
            with pytest.raises((ArgumentError, ArgumentValueError), match="path="):
                function(wrong)
        for wrong in ("", "a\0b"):
            with pytest.raises(ArgumentValueError, match="not the name of a file"):
                function(wrong)
    with pytest.raises(ArgumentValueError, match="is not a file"):
        plugrad.save(os.devnull, 1)


def test_file_system_errors_are_os_errors(tmp_path):
    tmp_path.joinpath("file").touch()
    for name, error, code in (
        ("no/folder/x", FileNotFoundError, errno.ENOENT),
        ("file/x", NotADirectoryError, errno.ENOTDIR),
        (".", IsADirectoryError, errno.EISDIR),
        ("n" * 300, OSError, errno.ENAMETOOLONG),
    ):
        for function in (lambda path: plugrad.save(path, 1), plugrad.load):
            with pytest.raises(error) as found:
                function(tmp_path / name)
            assert found.value.errno == code
            assert ".partial" not in str(found.value)
    assert os.listdir(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError, match="missing"):
        plugrad.load(tmp_path / "missing")
    plugrad.save(tmp_path / ("n" * 255), 1)  # the longest name
    assert plugrad.load(tmp_path / ("n" * 255)) == 1


def test_files_that_are_cut_off_are_refused_wherever_they_end(tree_path):
    plugrad.save(tree_path, {"x": plugrad.ones(3), "y": "z"})
    whole = tree_path.read_bytes()
    for length in range(len(whole)):
        tree_path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile, match=r"tree\.safetensors is damaged"):
            plugrad.load(tree_path)
    tree_path.write_bytes(whole + b"\0")
    with pytest.raises(DamagedFile):
        plugrad.load(tree_path)


def test_changed_bytes_are_refused_or_give_another_tree(tree_path, rng):
    """A damaged header raises only errors of plugrad."""
    plugrad.save(
        tree_path,
        {"x": plugrad.ones(2), "z": plugrad.asarray(1j, dtype="complex128"), "t": (1.5, "a")},
    )
    whole = tree_path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    refused = 0
    for _ in range(200):
        changed = bytearray(whole)
        for at in rng.integers(0, end, rng.integers(1, 4)):
            changed[at] = rng.choice(list(b'\0 "[{0195,}]:axF\xff'))
        tree_path.write_bytes(changed)
        try:
            plugrad.load(tree_path)
        except plugrad.errors.PlugradError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    "tree",
    [
        {"tensor": "no"},
        {"tensor": "x", "more": 1},
        {"tensor": "x", "dtype": "complex128"},
        {"tensor": "x", "dtype": "string", "shape": [2]},
        {"tensor": "x", "dtype": "string", "shape": [10**30]},
        {"variable": "x", "trainable": 1, "name": ""},
        {"dict": [["a"]]},
        {"dict": [[[], 1]]},
        {"int": "zz"},
        {"float": "zz"},
        {"complex": [1, "a"]},
        {"tuple": 1},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("code", ["F32", "U8"])
def test_structures_that_do_not_fit_are_refused(tree_path, tree, code):
    size = {"F32": 4, "U8": 1}[code]
    text = json.dumps({"version": 1, "tree": tree})
    write_file(
        tree_path,
        {"__metadata__": {"plugrad": text}, **one_tensor_header(code, size)},
        b"\1" * 2 * size,
    )
    with pytest.raises(DamagedFile, match=r"tree\.safetensors is damaged"):
        plugrad.load(tree_path)


def test_later_versions_and_other_texts_are_refused(tree_path):
    for text in ('{"version": 2, "tree": 1}', "[]", "no", "[" * 10**5):
        write_file(tree_path, {"__metadata__": {"plugrad": text}})
        with pytest.raises(DamagedFile):
            plugrad.load(tree_path)


def test_error_for_a_missing_library_names_it(tree_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "plugrad\[save\]"'):
        plugrad.save(tree_path, 1)


# --- whole or not at all --------------------------------------------------------------------------


def test_failed_save_leaves_only_the_old_file(tree_path, monkeypatch):
    plugrad.save(tree_path, "old")

    def fail(*_):
        raise KeyboardInterrupt

    def fail_for_lack_of_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def refused(*_):
        raise safetensors.SafetensorError("invalid")

    for target, name, replacement, error in (
        (os, "fsync", fail, KeyboardInterrupt),
        (os, "replace", fail, KeyboardInterrupt),
        (
            checkpoint,
            "_iter_values",
            fail_for_lack_of_space,
            OSError,
        ),  # while the file is half written
        (safetensors, "safe_open", refused, OSError),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(target, name, replacement)
            with pytest.raises(error):
                plugrad.save(tree_path, {"new": plugrad.ones(2)})
        assert plugrad.load(tree_path) == "old"
        assert os.listdir(tree_path.parent) == [tree_path.name]


@pytest.mark.skipif(os.name != "posix", reason="the limit of a file's size is that of POSIX")
def test_a_file_that_gets_too_large_leaves_the_old_one(tree_path):
    import resource

    plugrad.save(tree_path, "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            plugrad.save(tree_path, [plugrad.ones(20_000), plugrad.ones(20_000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert plugrad.load(tree_path) == "old"
    assert os.listdir(tree_path.parent) == [tree_path.name]


def test_saving_copies_at_most_two_tensors_to_the_host_at_a_time(tree_path, monkeypatch):
    on_host, most = [], [0]
    tensors = [plugrad.ones(3) for _ in range(5)]
    backend = tensors[0].backend
    numpy = backend.to_numpy

    def read(array):
        values = numpy(array).copy()
        on_host.append(weakref.ref(values))
        most[0] = max(most[0], sum(x() is not None for x in on_host))
        return values

    monkeypatch.setattr(backend, "to_numpy", read)
    monkeypatch.setattr(backend, "read", types.MethodType(Backend.read, backend))
    plugrad.save(tree_path, tensors)
    assert len(on_host) == 5
    assert 1 <= most[0] <= 2


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda arrays: (1 / 0 for _ in arrays), "read.. of backend .* failed: ZeroDivisionError"),
        (lambda arrays: (np.zeros(1, "f4") for _ in arrays), "read.. of backend .* 2 more values"),
        (lambda arrays: (np.zeros(9, "f4") for _ in arrays), "read.. of backend .* 3 values"),
        (lambda arrays: (np.zeros(3, "i4") for _ in arrays), "must return 3 values of float32"),
        (lambda arrays: (None for _ in arrays), "read.. of backend .* failed: AttributeError"),
    ],
)
def test_backends_that_do_not_read_are_named_and_leave_the_old_file(
    tree_path, monkeypatch, read, message
):
    plugrad.save(tree_path, "old")
    x = plugrad.ones(3)
    monkeypatch.setattr(x.backend, "read", read)
    with pytest.raises(BackendFailed, match=message):
        plugrad.save(tree_path, x)
    assert plugrad.load(tree_path) == "old"
    assert os.listdir(tree_path.parent) == [tree_path.name]


def test_disposed_tensors_are_named_and_leave_the_old_file(tree_path):
    plugrad.save(tree_path, "old")
    x = plugrad.ones(3)
    x.dispose()
    with pytest.raises(DisposedTensor):
        plugrad.save(tree_path, [plugrad.ones(2), x])
    assert plugrad.load(tree_path) == "old"


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
def test_saving_keeps_permissions_and_links(tree_path):
    plugrad.save(tree_path, 1)
    plain = tree_path.parent / "plain"
    plain.touch()
    assert stat.S_IMODE(tree_path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    tree_path.chmod(0o640)
    link = tree_path.parent / "link"
    link.symlink_to(tree_path.name)
    plugrad.save(link, 2)
    assert link.is_symlink()
    assert plugrad.load(tree_path) == 2
    assert stat.S_IMODE(tree_path.stat().st_mode) == 0o640


SAVING_PROGRAM = """
import sys
import numpy as np
import plugrad

for n in range(1, 1000):
    plugrad.save(sys.argv[1], {"n": n, "x": [plugrad.asarray(np.full(250_000, n)) for _ in range(4)]})
    print(n, flush=True)
"""


def test_killed_processes_leave_a_whole_file(tree_path, request, rng):
    """``--tries 50`` kills 50 processes, each at another moment of a save."""
    for _ in range(request.config.getoption("--tries")):
        plugrad.save(tree_path, {"n": 0, "x": [plugrad.zeros(1, dtype="int64")]})
        child = subprocess.Popen(
            [sys.executable, "-c", SAVING_PROGRAM, str(tree_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            last = int(child.stdout.readline())
            try:
                child.wait(rng.uniform(0, 0.05))
            except subprocess.TimeoutExpired:
                child.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
            last = max([last, *(int(line) for line in child.stdout if line.strip())])
        loaded = plugrad.load(tree_path)
        assert loaded["n"] in (last, last + 1)
        for x in loaded["x"]:
            assert (x.numpy() == loaded["n"]).all()
        leftovers = [name for name in os.listdir(tree_path.parent) if name != tree_path.name]
        assert all(re.fullmatch(r"\.tree\.safetensors\.\w+\.partial", name) for name in leftovers)


# --- training goes on -----------------------------------------------------------------------------

OPTIMIZER_FACTORIES = [
    lambda: optimizers.SGD(lambda n: 0.1 / (n + 1)),
    lambda: optimizers.Momentum(0.01, nesterov=True),
    lambda: optimizers.Adagrad(),
    lambda: optimizers.Adadelta(),
    lambda: optimizers.RMSProp(centered=True),
    lambda: optimizers.Adam(),
    lambda: optimizers.AdamW(),
    lambda: optimizers.Adamax(),
    lambda: optimizers.NAdam(),
    lambda: optimizers.Lion(),
]


@pytest.mark.parametrize("make", OPTIMIZER_FACTORIES, ids=lambda make: type(make()).__name__)
def test_training_goes_on_to_the_bit(make, save_and_load):
    def begun():
        rng = plugrad.random.Generator(7)
        weights = {
            "w": plugrad.Variable(rng.normal((5, 3))),
            "b": plugrad.Variable(plugrad.zeros(3)),
        }
        return weights, make(), rng

    def trained(weights, optimizer, rng, steps):
        def loss():
            hidden = plugrad.dropout(x @ weights["w"] + weights["b"], 0.5, seed=seed)
            return plugrad.mean(plugrad.square(hidden))

        losses = []
        for _ in range(steps):
            x = rng.normal((4, 5))
            seed = int(rng.integers((), 0, 1000).item())
            losses.append(optimizer.minimize(loss, list(weights.values())).item())
        return losses

    weights, optimizer, rng = begun()
    wanted = trained(weights, optimizer, rng, 7)

    first, interrupted, numbers = begun()
    losses = trained(first, interrupted, numbers, 3)
    state = save_and_load(
        {
            "weights": first,
            "optimizer": interrupted.get_state(list(first.values())),
            "random": numbers.state,
        }
    )
    resumed, goes_on, rng = state["weights"], make(), plugrad.random.Generator()
    goes_on.set_state(list(resumed.values()), state["optimizer"])
    rng.state = state["random"]
    assert losses + trained(resumed, goes_on, rng, 4) == wanted
    for name, w in weights.items():
        assert resumed[name].numpy().tobytes() == w.numpy().tobytes()


@pytest.mark.parametrize("call", [lambda path: plugrad.save(path, 1), plugrad.load])
def test_a_path_that_no_file_system_can_write_is_refused(call):
    with pytest.raises(ArgumentValueError, match="surrogate"):
        call("\ud800")
