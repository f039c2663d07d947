"""The pieces of a program, each of which one call from Python runs: a table in one module, or what threads share."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from plugrad_wasm.programs.recorder import Numbers, Shared
from plugrad_wasm.programs.table import TableCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad_wasm.programs.layout import Layout
    from plugrad_wasm.programs.recorder import Recorded
    from plugrad_wasm.programs.table import Loops
    from plugrad_wasm.runtime import Function


class Piece(NamedTuple):
    """Calls in one module."""

    module: str
    loops: Loops
    is_long: bool = False
    """Whether other threads run meanwhile."""


def pieces_of(
    calls: Sequence[Recorded], layout: Layout, functions: Mapping[str, Function]
) -> list[Piece | Shared]:
    """Return the calls as pieces. A long call ends one, because Python raises Ctrl-C between two of them."""
    pieces: list[Piece | Shared] = []
    waiting: list[TableCall] = []
    for call in calls:
        if isinstance(
            call, Numbers
        ):  # any module can write them: that of the call that reads them does
            waiting.append(TableCall(None, [*map(layout.operand, (call.target, *call.numbers))]))
            continue
        module = functions[call.export].module
        if isinstance(call, Shared):
            if waiting:
                pieces.append(Piece(module, [(1, 1, waiting)]))
                waiting = []
            pieces.append(call)
            continue
        last = pieces[-1] if pieces else None
        if not isinstance(last, Piece) or last.module != module or last.is_long:
            last = Piece(module, [(1, 1, [])])
            pieces.append(last)
        operands = [*map(layout.operand, call.arguments)]
        last.loops[-1][2].extend((*waiting, TableCall(call.export, operands)))
        waiting = []
        if call.is_long:
            pieces[-1] = last._replace(is_long=True)
    return pieces


class SharedCalls:
    """Chains of calls that several threads share."""

    def __init__(self, call: Shared, layout: Layout, perform: Callable[..., None]) -> None:
        """Say where the arguments lie."""
        self._export = call.export
        self._chains = [
            [[layout.operand(x)[:2] for x in arguments] for arguments in chain]
            for chain in call.chains
        ]
        self._scratch = [layout.operand(x)[:2] for x in call.scratch]
        self._perform = perform

    def __call__(self, bases: Sequence[int], *held: object) -> None:
        """Make the calls, with the bases of the operands; late threads keep what is held."""
        chains = [
            [tuple([bases[base] + number for base, number in each]) for each in chain]
            for chain in self._chains
        ]
        scratch = [_Located(int(bases[base] + number)) for base, number in self._scratch]
        self._perform(self._export, chains, held, scratch)


class _Located(NamedTuple):
    address: int
