"""Helpers of the tests of passes: unsimplified graphs, and passes whose result is verified after each step."""

from contextlib import contextmanager
from unittest.mock import patch

from plugrad.graph.verifier import verify_graph
from plugrad.passes import simplify
from plugrad.passes.dead import remove_dead_steps
from plugrad.tracing import program
from plugrad.tracing.jit import make_graph
from plugrad.tracing.replay import compile_replay
from plugrad.transforms.variable import get_array
from plugrad.types.bits import comparable_bits


def recorded_graph(function, *args):
    """Return the graph of a function before any pass but the removal of dead steps."""
    with patch.object(program, "simplify_graph", remove_dead_steps):
        return make_graph(function)(*args)


def kernel_names(graph):
    return [step.kernel.name for step in graph.steps]


def check_pass(apply, function, *args):
    """Apply a pass to the graph of a function, verify it, compare the bits of its results, and return it."""
    graph = recorded_graph(function, *args)
    verify_graph(graph)
    changed = apply(graph)
    verify_graph(changed)
    assert apply(changed).steps == changed.steps, "a second time, the pass finds more to do"
    for one, other in zip(result_bits(changed, args), result_bits(graph, args), strict=True):
        assert one == other
    return changed


def result_bits(graph, args):
    """Return the shapes and bits of the results of a graph."""
    variables = map(get_array, graph.variables.values())
    arrays = compile_replay(graph)(*[x.array for x in args], *variables)
    return [(x.shape, comparable_bits(graph.backend.to_numpy(x))) for x in arrays]


@contextmanager
def verified_passes():
    """Verify each graph recorded inside the block, and the result of each pass over it."""

    def verified(apply):
        def checked(graph):
            verify_graph(graph)
            changed = apply(graph)
            verify_graph(changed)
            return changed

        return checked

    with patch.object(
        simplify,
        "SIMPLIFICATION_PASSES",
        [verified(apply) for apply in simplify.SIMPLIFICATION_PASSES],
    ):
        yield
