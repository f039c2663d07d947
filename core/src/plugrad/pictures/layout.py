"""The layout of a graph: boxes in rows along the flow of values, ordered so that few edges cross.

Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981), with
one difference: there are up to three blocks beside each other. In the first, the function's, values flow
downwards. In the second, its gradient's, they flow upwards, and what computes the gradient of a kernel
begins in the kernel's row. The third has what is computed from gradients, downwards again. Edges between
blocks are drawn as they come.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from plugrad.pictures.trace import Edge, Node

LINE_HEIGHT = 16
"""The height of a line of text, in pixels as all sizes here."""
COLUMN_GAP = 20
"""The least distance between boxes of one row."""
ROW_GAP = 36
"""The distance between rows."""
BLOCK_GAP = 90
"""The distance between the block of the function and the block of its gradient."""
ORDERING_SWEEPS = 12
"""How many passes sort the rows, so that few edges cross; the same number of passes then only move boxes."""


class Box(NamedTuple):
    """A rectangle, given by its centre and its size."""

    x: float
    y: float
    width: float
    height: float


class Arrangement(NamedTuple):
    """The finished layout: boxes, bends of edges, and the size of the picture."""

    boxes: list[Box]
    """The boxes of the nodes, in the order of the nodes."""
    bends: dict[Edge, list[tuple[float, float]]]
    """By edge, the points that it passes between its ends."""
    leads_upwards: dict[Edge, bool | None]
    """By edge, whether it leads upwards; None for one from block to block."""
    width: float
    """The width of the picture, in pixels."""
    height: float
    """The height of the picture, in pixels."""


@dataclass
class _RowItem:
    """An item of a row: a node, or a point through which a long edge passes."""

    row: int
    """The number of the row, from the top."""
    width: float
    height: float
    x: float = 0.0
    """The horizontal centre."""


def arrange_graph(nodes: Sequence[Node], edges: Sequence[Edge]) -> Arrangement:
    """Lay out a graph: return the boxes of nodes and the bends of edges."""
    sources, targets = _find_neighbours(edges)
    blocks = _assign_blocks(nodes, sources, targets)
    rows = _assign_rows(nodes, blocks, sources, targets)
    items = [_RowItem(row, *_node_size(node)) for row, node in zip(rows, nodes, strict=True)]
    offset = 0.0
    bends: dict[Edge, list[_RowItem]] = {}
    for block in sorted(set(blocks)):
        inside = [i for i, b in enumerate(blocks) if b == block]
        within = [e for e in edges if blocks[e.source] == blocks[e.target] == block]
        offset += _arrange_block(items, inside, within, bends, offset) + BLOCK_GAP
    first, last = min(rows, default=0), max(rows, default=0)
    heights = [0.0] * (last - first + 1)
    for item in items:
        heights[item.row - first] = max(heights[item.row - first], item.height)
    middles: list[float] = []
    top = 0.0
    for height in heights:
        middles.append(top + height / 2)
        top += height + ROW_GAP
    return Arrangement(
        [Box(i.x, middles[i.row - first], i.width, i.height) for i in items],
        {e: [(i.x, middles[i.row - first]) for i in passed] for e, passed in bends.items()},
        {
            e: rows[e.target] < rows[e.source] if blocks[e.source] == blocks[e.target] else None
            for e in edges
        },
        max(offset - BLOCK_GAP, 0),
        max(top - ROW_GAP, 0),
    )


def _node_size(node: Node) -> tuple[float, float]:
    """Return the width and the height of a node's box, in pixels."""
    # Titles are bold and proportional, lines small and of one width.
    width = max(len(node.title) * 8.2, *(len(line) * 6.9 for line in node.lines))
    return width + 22, LINE_HEIGHT * (1 + len(node.lines)) + 12


def _find_neighbours(edges: Sequence[Edge]) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """Return by node the nodes from which edges come, and those to which edges lead."""
    sources: dict[int, list[int]] = defaultdict(list)
    targets: dict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    return sources, targets


# --- blocks and rows -----------------------------------------------------------------------------


def _assign_blocks(
    nodes: Sequence[Node], sources: dict[int, list[int]], targets: dict[int, list[int]]
) -> list[int]:
    """Return the block (forward or gradient) of each node; there is only one for higher-order gradients."""
    blocks = [1 if node.is_backward else 0 for node in nodes]
    for i, node in enumerate(nodes):  # sources have smaller positions
        if not node.is_backward and any(blocks[s] for s in sources[i]):
            blocks[i] = 2
    if any(n.is_backward and n.owner is not None and blocks[n.owner] for n in nodes):
        return [0] * len(nodes)
    for i in range(len(nodes)):
        if not sources[i] and targets[i]:  # beside what takes it first
            blocks[i] = blocks[min(targets[i])]
    return blocks


def _assign_rows(
    nodes: Sequence[Node],
    blocks: Sequence[int],
    sources: dict[int, list[int]],
    targets: dict[int, list[int]],
) -> list[int]:
    """Return the row of each node; some may be negative."""
    rows: list[int] = [0] * len(nodes)
    of: dict[int, list[int]] = defaultdict(list)
    for i, node in enumerate(nodes):
        if blocks[i] == 1 and node.kind == "kernel":
            of[-1 if node.owner is None else node.owner].append(i)
    bottoms: dict[int, int] = {}

    def place_gradients(node_index: int, top_row: int) -> int:
        """Place the gradient nodes of a node below their consumers, and return the last row."""
        last = top_row
        for i in reversed(of[node_index]):
            below = [rows[t] for t in targets[i] if blocks[t] == 1 and nodes[t].kind == "kernel"]
            rows[i] = max(top_row, *(row + 1 for row in below)) if below else top_row
            last = max(last, rows[i])
        return last

    place_gradients(-1, 1)
    for i, node in enumerate(nodes):
        if node.kind != "kernel" or blocks[i] == 1:
            continue
        above = [s for s in sources[i] if nodes[s].kind == "kernel"]
        same = [bottoms[s] + 1 for s in above if blocks[s] == blocks[i]]
        others = [rows[s] for s in above if blocks[s] != blocks[i]]
        rows[i] = max(1, *same, *others) if same or others else 1
        bottoms[i] = place_gradients(i, rows[i])
    for i, node in enumerate(nodes):
        up = blocks[i] == 1
        if node.kind == "kernel":
            continue
        if targets[i]:  # it begins: beside what takes it first
            near = [rows[t] for t in targets[i] if blocks[t] == blocks[i]]
            rows[i] = max(near) + 1 if up else min(near) - 1
        elif sources[i]:
            rows[i] = rows[sources[i][0]] + (-1 if up else 1)
    return rows


# --- inside a block ------------------------------------------------------------------------------


def _arrange_block(
    items: list[_RowItem],
    node_indices: Sequence[int],
    edges: Sequence[Edge],
    bends: dict[Edge, list[_RowItem]],
    offset: float,
) -> float:
    """Set the x positions of a block's items, starting at the x position `offset`, and return its width."""
    rows: dict[int, list[_RowItem]] = defaultdict(list)
    near: dict[int, dict[int, list[_RowItem]]] = defaultdict(lambda: defaultdict(list))
    for i in node_indices:
        rows[items[i].row].append(items[i])
    for edge in edges:
        start, end = items[edge.source], items[edge.target]
        step = 1 if end.row > start.row else -1
        passed = [_RowItem(row, 6, 0) for row in range(start.row + step, end.row, step)]
        bends[edge] = passed
        for item in passed:
            rows[item.row].append(item)
        chain = [start, *passed, end]
        for a, b in pairwise(chain):
            near[id(a)][b.row - a.row].append(b)
            near[id(b)][a.row - b.row].append(a)

    order = sorted(rows)
    for row in order:
        _place_in_row(rows[row], lambda item: item.x)
    for sweep in range(2 * ORDERING_SWEEPS):
        side = -1 if sweep % 2 == 0 else 1
        for row in order if side < 0 else order[::-1]:

            def preferred_x(item: _RowItem, side: int = side) -> float:
                """Return the mean x of an item's neighbours in the row on one side."""
                beside = near[id(item)][side]
                both = beside or near[id(item)][-side]
                return sum(b.x for b in both) / len(both) if both else item.x

            if sweep < ORDERING_SWEEPS:
                rows[row].sort(key=preferred_x)
            _place_in_row(rows[row], preferred_x)
    left = min(item.x - item.width / 2 for row in rows.values() for item in row)
    right = max(item.x + item.width / 2 for row in rows.values() for item in row)
    for row in rows.values():
        for item in row:
            item.x += offset - left
    return right - left


def _place_in_row(row: Sequence[_RowItem], preferred_x: Callable[[_RowItem], float]) -> None:
    """Set the x positions of a row's items as near as possible to preferred ones, without overlaps.

    Neighbours that would overlap form a group, which lies where the squares of the distances are least.
    """
    groups: list[
        tuple[float, int]
    ] = []  # the sum of where the group's first item wishes to be, and how many
    shifts: list[float] = []
    shift = 0.0
    for i, item in enumerate(row):
        if i:
            shift += (row[i - 1].width + item.width) / 2 + COLUMN_GAP
        shifts.append(shift)
    for item, shift in zip(row, shifts, strict=True):
        total, count = preferred_x(item) - shift, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            before, number = groups.pop()
            total, count = total + before, count + number
        groups.append((total, count))
    positions = [total / count for total, count in groups for _ in range(count)]
    for item, position, shift in zip(row, positions, shifts, strict=True):
        item.x = position + shift
