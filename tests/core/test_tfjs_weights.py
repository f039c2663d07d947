"""Weights of TensorFlow.js: bytes, specs and manifests, as its encodeWeights and decodeWeights have them."""

import json
import math
import os

import numpy as np
import pytest

import plugrad
from plugrad import tfjs
from plugrad.errors import (
    ArgumentError,
    ArgumentValueError,
    DamagedFile,
    DTypeError,
    PlugradError,
)
from plugrad.saving import tfjs_weights

WEIGHT_VALUES = {
    "f": [1.5, math.inf],
    "b": [True],
    "s": ["hi", "ö"],
    "i": [[-1], [2**31 - 1]],
    "c": 1 - 2j,
    "none": plugrad.zeros((0, 3)),
}


def weight_spec(dtype, shape, /, **quantization):
    found = {"name": "w", "shape": shape, "dtype": dtype}
    return found | ({"quantization": quantization} if quantization else {})


def test_bytes_are_little_endian_and_in_order():
    data, specs = tfjs.encode_weights(WEIGHT_VALUES)
    assert data == b"".join(
        [
            np.array([1.5, math.inf], "<f4").tobytes(),
            b"\1",
            b"\2\0\0\0hi\2\0\0\0\xc3\xb6",
            np.array([-1, 2**31 - 1], "<i4").tobytes(),
            np.array([1, -2], "<f4").tobytes(),
        ]
    )
    assert [(x["name"], x["dtype"], x["shape"]) for x in specs] == [
        ("f", "float32", [2]),
        ("b", "bool", [1]),
        ("s", "string", [2]),
        ("i", "int32", [2, 1]),
        ("c", "complex64", []),
        ("none", "float32", [0, 3]),
    ]
    json.dumps(specs)


def test_encoded_weights_are_decoded_again(backend):
    data, specs = tfjs.encode_weights(WEIGHT_VALUES)
    for pieces in (data, [data[:3], data[3:20], data[20:]]):
        found = tfjs.decode_weights(pieces, specs)
        assert {x.backend.name for x in found.values()} == {backend}
        for name, x in WEIGHT_VALUES.items():
            np.testing.assert_array_equal(found[name].numpy(), plugrad.asarray(x).numpy())
            assert found[name].dtype == plugrad.asarray(x).dtype


@pytest.mark.parametrize(
    ("dtype", "data", "quantization", "wanted"),
    [
        ("float32", b"\0\1\377", {"dtype": "uint8", "scale": 0.1, "min": -1}, [-1, -0.9, 24.5]),
        (
            "float32",
            b"\0\0\1\0\377\377",
            {"dtype": "uint16", "scale": 2.0, "min": 0.5},
            [0.5, 2.5, 131070.5],
        ),
        ("int32", b"\0\1\2", {"dtype": "uint8", "scale": 0.5, "min": -0.5}, [0, 0, 1]),
        ("int32", b"\0\1\4", {"dtype": "uint8", "scale": 1.0, "min": -2.5}, [-2, -1, 2]),
        ("float32", b"\0\x3c\0\x7c\1\0", {"dtype": "float16"}, [1.0, math.inf, 2.0**-24]),
        ("float32", b"\0\xfc\1\x7e\0\x80", {"dtype": "float16"}, [-math.inf, math.nan, -0.0]),
    ],
)
def test_quantized_weights_are_restored(dtype, data, quantization, wanted):
    found = tfjs.decode_weights(data, [weight_spec(dtype, [3], **quantization)])["w"].numpy()
    expected = np.array(wanted, dtype)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype
    if dtype == "float32":
        assert (np.signbit(found) == np.signbit(expected)).all()


@pytest.mark.parametrize("kind", ["uint8", "uint16"])
@pytest.mark.parametrize(
    ("low", "high"),
    [(-3.0, 5.0), (-1e-3, 1e30), (2.0, 2.5), (-9.0, -1.0), (-1.0, 0.0), (0.0, 1e-44)],
)
def test_quantizing_moves_values_by_a_step_at_most(rng, kind, low, high):
    values = rng.uniform(low, high, 200).astype(np.float32)
    values[:2] = low, high
    values[2:4] = min(max(0, low), high)
    data, (found,) = tfjs.encode_weights({"w": values}, quantization=kind)
    assert len(data) == 200 * (1 if kind == "uint8" else 2)
    step = found["quantization"]["scale"]
    assert step == pytest.approx(
        (values.max() - values.min()) / (2 ** (8 * len(data) // 200) - 1), rel=1e-6
    )
    restored = tfjs.decode_weights(data, [found])["w"].numpy()
    rounding = np.abs(values).max() * 2.0**-23
    assert np.abs(restored.astype(float) - values).max() <= step * 1.0001 + rounding
    if low <= 0 <= high:
        assert (restored[values == 0] == 0).all()


def test_quantization_keeps_constant_empty_and_integer_weights():
    weights = {
        "same": [0.1, 0.1],
        "none": plugrad.zeros((0,)),
        "i": [1, 300],
        "b": [True],
        "s": ["a"],
    }
    for kind in ("uint8", "uint16"):
        found = tfjs.decode_weights(*tfjs.encode_weights(weights, quantization=kind))
        for name, x in weights.items():
            np.testing.assert_array_equal(found[name].numpy(), plugrad.asarray(x).numpy())
    found = tfjs.decode_weights(
        *tfjs.encode_weights({"w": [0.1, -70_000 / 2]}, quantization="float16")
    )
    assert found["w"].tolist() == [float(np.float16(0.1)), -35_008.0]


def test_errors_name_weights_that_cannot_be_encoded():
    for kind, value in (("uint8", math.nan), ("uint16", math.inf), ("float16", 70_000.0)):
        with pytest.raises(
            ArgumentValueError, match=f"'w' reaches .* {kind} does not hold; save it without"
        ):
            tfjs.encode_weights({"w": [value]}, quantization=kind)
    with pytest.raises(ArgumentValueError, match="'uint8', 'uint16' or 'float16'"):
        tfjs.encode_weights({}, quantization="int8")
    with pytest.raises(DTypeError, match=r"'w' is float64; .*astype\('float32'\)"):
        tfjs.encode_weights({"w": np.zeros(2)})
    for wrong in ([1.0], {1: 1.0}, None):
        with pytest.raises(ArgumentError, match="a dict of tensors by name"):
            tfjs.encode_weights(wrong)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", weight_spec("float32", [1])),
        (b"\0" * 5, weight_spec("float32", [1])),
        (b"\0" * 4, weight_spec("int64", [1])),
        (b"\0" * 4, weight_spec("float32", [-1])),
        (b"\0" * 4, weight_spec("float32", [10**30])),
        (b"\0" * 4, weight_spec("float32", [1] * 70)),
        (b"", weight_spec("float32", [0] * 70)),
        (b"\0" * 4, weight_spec("float32", "a")),
        (b"\0" * 4, {"name": "w", "shape": [1]}),
        (b"\0" * 4, None),
        (b"\1\0\0\0", weight_spec("string", [1])),
        (b"\1\0\0\0\xff", weight_spec("string", [1])),
        (b"\0\0\0\0", weight_spec("string", [10**30])),
        (b"\0", weight_spec("float32", [1], dtype="uint8", scale=1.0)),
        (b"\0", weight_spec("float32", [1], dtype="uint8", scale="a", min=0.0)),
        (b"\0", weight_spec("float32", [1], dtype="int8", scale=1.0, min=0.0)),
        (b"\0\0", weight_spec("int32", [1], dtype="float16")),
        (b"\1", weight_spec("int32", [1], dtype="uint8", scale=1e10, min=0.0)),
        (b"\1", weight_spec("float32", [1], dtype="uint8", scale=math.nan, min=0.0)),
        (b"\0", weight_spec("bool", [1], dtype="uint8", scale=1.0, min=0.0)),
    ],
)
def test_specs_that_do_not_fit_are_refused(data, found):
    with pytest.raises(DamagedFile):
        tfjs.decode_weights(data, [found])


# --- manifests ------------------------------------------------------------------------------------


def test_written_manifest_and_files_are_read_again(tmp_path):
    path = tmp_path / "m.json"
    tfjs.write_weights(path, WEIGHT_VALUES, shard_bytes=10)
    names = [f"m-shard{i}of4.bin" for i in range(1, 5)]
    assert sorted(os.listdir(tmp_path)) == [*names, "m.json"]
    assert [os.path.getsize(tmp_path / name) for name in names] == [10, 10, 10, 7]
    found = tfjs.read_weights(path)
    assert {name: x.tolist() for name, x in found.items()} == {
        name: plugrad.asarray(x).tolist() for name, x in WEIGHT_VALUES.items()
    }
    tfjs.write_weights(path, {"w": [1.0, 2.0]}, quantization="uint8")
    assert tfjs.read_weights(path)["w"].tolist() == [1.0, 2.0]
    tfjs.write_weights(path, {})
    assert tfjs.read_weights(path) == {}


def test_models_with_several_groups_are_read(tmp_path):
    groups = []
    for i, name in enumerate("ab"):
        (tmp_path / f"{i}.bin").write_bytes(np.array([i, 2], "<f4").tobytes())
        groups.append(
            {"paths": [f"{i}.bin"], "weights": [weight_spec("float32", [2]) | {"name": name}]}
        )
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"modelTopology": {}, "format": "x", "weightsManifest": groups}))
    assert {k: x.tolist() for k, x in tfjs.read_weights(path).items()} == {
        "a": [0.0, 2.0],
        "b": [1.0, 2.0],
    }


def test_wrong_manifests_are_refused(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 4)
    path = tmp_path / "inside" / "model.json"
    good = {"paths": ["../w.bin"], "weights": [weight_spec("float32", [1])]}
    for wrong in (
        "no",
        "{}",
        "[1]",
        "[" * 10**5,
        json.dumps([good]),
        json.dumps([good | {"paths": [str(tmp_path / "w.bin")]}]),
        json.dumps([good | {"paths": [""]}]),
        json.dumps([good | {"paths": []}]),
    ):
        path.write_text(wrong)
        with pytest.raises(DamagedFile, match=r"read_weights: .*model\.json is damaged"):
            tfjs.read_weights(path)
    (path.parent / "w.bin").write_bytes(b"\0" * 4)
    twice = good | {"paths": ["w.bin"]}
    path.write_text(json.dumps([twice, twice]))
    with pytest.raises(DamagedFile, match="two weights called 'w'"):
        tfjs.read_weights(path)
    path.write_text(json.dumps([good | {"paths": ["missing.bin"]}]))
    with pytest.raises(FileNotFoundError):
        tfjs.read_weights(path)
    with pytest.raises(PlugradError):
        tfjs.write_weights(path, {}, shard_bytes=0)


def test_failing_to_write_leaves_the_old_weights(tmp_path, monkeypatch):
    path, other = tmp_path / "m.json", tmp_path / "m-shard1of1.json"
    tfjs.write_weights(path, {"w": [1.0] * 4}, shard_bytes=8)
    tfjs.write_weights(other, {"w": [3.0]})
    first = set(os.listdir(tmp_path))
    replace = os.replace
    for last in (1, 2, 3):  # two files and the manifest
        calls = []

        def fail(*names, last=last, calls=calls):
            calls.append(names)
            if len(calls) == last:
                raise KeyboardInterrupt
            replace(*names)

        with monkeypatch.context() as patched:
            patched.setattr(os, "replace", fail)
            with pytest.raises(KeyboardInterrupt):
                tfjs.write_weights(path, {"w": [2.0] * 4}, shard_bytes=8)
        assert tfjs.read_weights(path)["w"].tolist() == [1.0] * 4
    tfjs.write_weights(path, {"w": [5.0] * 4}, shard_bytes=8)
    assert tfjs.read_weights(path)["w"].tolist() == [5.0] * 4
    names = set(os.listdir(tmp_path))
    assert {name for name in first if "1of1" in name} | {"m.json"} <= names
    assert len(names) == len(first)  # what was written before is gone
    assert tfjs.read_weights(other)["w"].tolist() == [3.0]
    tfjs.write_weights(path, {"w": [6.0] * 4}, shard_bytes=8)
    assert len(os.listdir(tmp_path)) == len(first)


def test_weights_may_be_replaced_while_they_are_read(tmp_path, monkeypatch):
    path = tmp_path / "m.json"
    tfjs.write_weights(path, {"w": [1.0]})
    decoded, opened = tfjs_weights.json.loads, []

    def replaced_meanwhile(text):
        if not opened:
            opened.append(text)
            tfjs.write_weights(path, {"w": [2.0]})
        return decoded(text)

    monkeypatch.setattr(tfjs_weights.json, "loads", replaced_meanwhile)
    assert tfjs.read_weights(path)["w"].tolist() == [2.0]
    assert opened
