"""Compiled entries of programs: generated Python that checks the arguments and the context of a repeated call.

A call of a few operations takes two microseconds, half of which was the key that finds its program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from plugrad.engine import watching
from plugrad.settings import journal
from plugrad.tensor.context import current_context
from plugrad.tensor.tensor import Tensor
from plugrad.tracing.compiled import CompiledGraph
from plugrad.transforms.variable import watched_variables

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from plugrad.tracing.program import Program

ENTRY_MISS: Final = object()
"""What a compiled entry returns for a call that needs another program, or more than running its program."""
MAX_ENTRY_ARGUMENTS: Final = 200
"""The most arguments of a call for which an entry is compiled; the parser of Python has limits."""


def ignore_error(_: BaseException) -> None:
    """Do nothing, because the code that raised the error has recorded it."""


def miss_entry(_: tuple[Any, ...]) -> Any:
    """Return `ENTRY_MISS`: the call has no compiled entry."""
    return ENTRY_MISS


def compile_entry(
    program: Program, registry_state: Any, args: tuple[Any, ...]
) -> Callable[[tuple[Any, ...]], Any]:
    """Return a compiled entry: a function of a call's arguments that runs the program or returns `ENTRY_MISS`.

    There is one if all arguments are tensors, and nothing decides what runs but them and what Python has decided.

    Args:
        program: what runs for these arguments.
        registry_state: the number of the latest change of registries and settings, as in the program's key.
        args: the arguments.
    """
    are_tensors = 0 < len(args) <= MAX_ENTRY_ARGUMENTS and all(type(x) is Tensor for x in args)
    around = current_context()
    is_plain = around is None or around[:3] == (None, None, None)  # but for settings
    if not (are_tensors and is_plain and program.allows_compiled_entry):
        return miss_entry
    names: dict[str, Any] = {
        "ENTRY_MISS": ENTRY_MISS,
        "Tensor": Tensor,
        "journal": journal,
        "latest_change_number": registry_state
        if type(registry_state) is int
        else registry_state[0],
        "around": around,
        "context": current_context,
        "watched": watched_variables.get,
        "watching": watching,
        "run": program.run_with_variables if program.has_state else program.run,
        "record_device_loss": ignore_error,
        "backend": program.backend,
        "rebuild": program.rebuild,
    }
    if isinstance(program.run, CompiledGraph) and not program.has_state:
        names["run"], names["record_device_loss"] = (
            program.run.compiled,
            program.run.record_device_loss,
        )
    for index, (function, answer) in enumerate(program.guards):
        names[f"ask{index}"], names[f"answer{index}"] = function, answer
    for index, x in enumerate(args):
        names[f"shape{index}"], names[f"dtype{index}"] = x.array.shape, x.array.dtype
    exec(_compile_entry_code(len(args), len(program.guards)), names)
    enter: Callable[[tuple[Any, ...]], Any] = names["enter"]
    return enter


@lru_cache
def _compile_entry_code(argument_count: int, guard_count: int) -> CodeType:
    """Return the code that all entries with these numbers of arguments and of guards share."""
    numbers = range(argument_count)
    lines = [
        "def enter(args):",
        "    now = context()",
        "    if now is not around and now != around or watched() is not None or watching.watchers:",
        "        return ENTRY_MISS",
        "    if journal.latest_change_number != latest_change_number or backend.is_closed or backend.lost:",
        "        return ENTRY_MISS",
        f"    if len(args) != {argument_count}: return ENTRY_MISS",
        f"    {''.join(f'x{i}, ' for i in numbers)}= args",
        *[
            f"    if type(x{i}) is not Tensor or x{i}.node is not None or "
            f"x{i}.backend is not backend: return ENTRY_MISS\n"
            f"    a{i} = x{i}.array\n"
            f"    if a{i}.shape != shape{i} or a{i}.dtype is not dtype{i}: return ENTRY_MISS"
            for i in numbers
        ],
        *[f"    if ask{i}() != answer{i}: return ENTRY_MISS" for i in range(guard_count)],
        "    try:",
        f"        arrays = run({', '.join(f'a{i}' for i in numbers)})",
        "    except BaseException as failure:",
        "        record_device_loss(failure)",
        "        raise",
        "    return rebuild(arrays, backend)",
    ]
    return compile("\n".join(lines), "<plugrad: entry>", "exec")
