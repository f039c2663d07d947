"""Products and convolutions compile quickly and in little memory, for every schedule and layout of operands.

Compilers of some drivers take time that doubles with each branch of a sum that is written out: loads of single
elements, guarded by ``&&``, took minutes and 8 GB.
"""

import resource
import time
from itertools import product as combinations

import pytest

from plugrad.extend import float32, sliding_window
from plugrad_webgpu.algorithms import product
from plugrad_webgpu.algorithms.tiles import BROADCAST_SUBGROUP_SIZE, TILES_BY_NAME
from plugrad_webgpu.kernels import convolution
from plugrad_webgpu.kernels.activation import ELU_WGSL

MAX_COMPILE_SECONDS = 3.0
MAX_COMPILE_MEGABYTES = 500

IMAGE_SIZE = (12, 12)
SLIDING_WINDOW = sliding_window(IMAGE_SIZE, (3, 3), (1, 1), "same")


def left_operand_source(name, channels, is_transposed):
    """Return a source of a product's left operand, and whether it is transposed."""
    if name == "matrix":
        return product._matrix_source(channels, channels, is_transposed), is_transposed
    if name == "weights":
        return convolution._filter_gradient_source(SLIDING_WINDOW, IMAGE_SIZE, channels), True
    return convolution._patch_source(name, SLIDING_WINDOW, IMAGE_SIZE, IMAGE_SIZE, channels)[
        0
    ], False


def measure_compilation(device, tile, left, is_transposed, turns_b, is_whole, ending):
    """Return the CPU seconds and the megabytes that compiling a product takes in a new process."""
    sizes = (1 if tile.schedule == "shared" else 2, 4)
    program = product._product_program.__wrapped__(
        tile, left, float32, sizes, (is_transposed, turns_b), (is_whole,) * 3, ending, False
    )
    bindings = program.source().count("@binding(")
    memory, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    device.prepare(program, bindings)
    seconds = time.process_time() - start
    device.forget([program])
    return seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) / 1024


@pytest.mark.parametrize("name", ["matrix", "forward", "backward", "weights"])
@pytest.mark.parametrize("tile", TILES_BY_NAME)
def test_products_compile_quickly(run, tile, name):
    if (
        TILES_BY_NAME[tile].schedule == "broadcast"
        and run.device.subgroup_size != BROADCAST_SUBGROUP_SIZE
    ):
        pytest.skip("the subgroups of this device have another size")
    for channels, turns in combinations((3, 8), (False, True)):
        left, is_transposed = left_operand_source(name, channels, turns)
        left = left._replace(parameter_values=(), runs_per_row=1)
        # The longest ending that there is, where most is written out
        ending = product._EpilogueSource(*((ELU_WGSL, "column") if tile == "direct" else ()))
        whole = channels % 4 == 0
        found = measure_compilation(
            run.device, TILES_BY_NAME[tile], left, is_transposed, turns, whole, ending
        )
        assert found[0] <= MAX_COMPILE_SECONDS, (channels, turns)
        assert found[1] <= MAX_COMPILE_MEGABYTES, (channels, turns)


def test_guards_of_loads_do_not_branch(run):
    """``a && b`` is a branch, and 32 of them make 2^32 paths; ``a & b`` is no branch."""
    for name in ("matrix", "forward", "backward", "weights"):
        left, is_transposed = left_operand_source(name, 3, is_transposed=False)
        access = product._left_operand_access(left, is_transposed, "f32")
        assert "run.end" in access["a_line"]
        assert "&&" not in access["a_line"]
        assert "||" not in access["a_line"]
