"""Random programs of elementwise calls, which keep some results and release others."""

import numpy as np
import pytest

import plugrad
from plugins.webgpu.bits import assert_same_bits
from plugins.webgpu.test_chains import run_unfused
from plugrad.extend import as_dtype

pytestmark = pytest.mark.usefixtures("run", "webgpu")

UNARY_OPS = {
    "float32": ["negative", "abs", "tanh", "exp", "sin", "relu", "sqrt", "isnan"],
    "int32": ["negative", "abs", "square", "bitwise_invert"],
    "uint32": ["square", "bitwise_invert"],
    "int8": ["negative", "abs", "square"],
    "int64": ["negative", "abs", "square"],
    "float16": ["negative", "abs", "tanh"],
    "bfloat16": ["negative", "abs", "tanh"],
    "bool": ["logical_not"],
}
BINARY_OPS = {
    "float32": ["add", "subtract", "multiply", "divide", "maximum", "less"],
    "int32": ["add", "subtract", "multiply", "minimum", "equal"],
    "uint32": ["add", "multiply", "bitwise_xor", "maximum", "greater"],
    "int8": ["add", "multiply", "minimum"],
    "int64": ["add", "subtract", "multiply", "maximum"],
    "float16": ["add", "subtract", "multiply"],
    "bfloat16": ["add", "subtract", "multiply"],
    "bool": ["logical_and", "logical_or", "logical_xor"],
}
OPS_RETURNING_BOOL = ("isnan", "less", "equal", "greater")


class RandomProgram:
    """A program of random calls on random arrays, some of whose results are kept."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        columns = 8 - seed % 2
        shapes = [(6, columns), (6, columns), (columns,), (6, 1), (), (1, columns)]
        dtypes = [dtype for dtype in UNARY_OPS for _ in range(3)]
        self.arrays = [
            (rng.integers(0, 9, shapes[rng.integers(6)]) * rng.random()).astype(as_dtype(d).numpy)
            for d in dtypes
        ]
        self.calls = []
        for _ in range(rng.integers(5, 70)):
            first = int(rng.integers(len(dtypes)))
            dtype = dtypes[first]
            same = [i for i, other in enumerate(dtypes) if other == dtype]
            chance = rng.random()
            if chance < 0.2:  # the conversion of large floats to integers is another matter
                is_float = "float" in dtype
                targets = ["float32", "bool"] if is_float else list(UNARY_OPS)
                name, operands = str(rng.choice(targets)), [first]
                dtypes.append(name)
            else:
                is_pair = chance < 0.7
                name = str(rng.choice((BINARY_OPS if is_pair else UNARY_OPS)[dtype]))
                operands = [first, int(rng.choice(same))] if is_pair else [first]
                dtypes.append("bool" if name in OPS_RETURNING_BOOL else dtype)
            self.calls.append((name, operands, rng.random() < 0.2))

    def run(self):
        """Return the values of the kept results; other results are released after their last use."""
        values = dict(enumerate(map(plugrad.asarray, self.arrays)))
        kept = []
        last = {i: place for place, (_, operands, _) in enumerate(self.calls) for i in operands}
        for place, (name, operands, is_kept) in enumerate(self.calls):
            inputs = [values[i] for i in operands]
            result = (
                inputs[0].astype(name) if name in UNARY_OPS else getattr(plugrad, name)(*inputs)
            )
            number = len(self.arrays) + place
            if number in last:
                values[number] = result
            if is_kept or number not in last:
                kept.append(result)
            del inputs, result
            for i in operands:
                if last[i] == place:
                    values.pop(i, None)
        return [x.numpy() for x in kept]


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_have_the_values_of_separate_calls(seed):
    program = RandomProgram(seed)
    alone = run_unfused(program.run)
    for _ in range(3):  # the first time, no chain is compiled
        for found, expected in zip(program.run(), alone, strict=True):
            assert found.dtype == expected.dtype
            assert_same_bits(found, expected)


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_have_the_values_of_the_reference(seed):
    program = RandomProgram(seed)
    with plugrad.use("cpu"), np.errstate(all="ignore"):
        reference = program.run()
    program.run()
    for found, expected in zip(program.run(), reference, strict=True):
        # Rounding tips comparisons, and errors grow in sines of large numbers.
        is_close = np.isclose(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
        assert is_close.mean() > 0.9


@pytest.mark.parametrize("seed", range(20))
def test_small_arrays_on_the_host_have_the_values_of_the_device(
    small_array_device, monkeypatch, seed
):
    program = RandomProgram(seed)
    on_host = program.run()
    monkeypatch.setattr(small_array_device.hosting, "most", 0)
    for found, expected in zip(on_host, program.run(), strict=True):
        assert_same_bits(found, expected)
