"""The text of a picture of a graph."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad.pictures.layout import Arrangement, Box
    from plugrad.pictures.trace import Edge, Node

PICTURE_MARGIN = 20
"""The space around the picture, in pixels."""
HEADER_HEIGHT = 40
"""The height of the legend, in pixels."""
LEGEND_ENTRIES = (
    ("kernel", "kernel"),
    ("backward", "kernel of the gradient"),
    ("argument", "argument, variable"),
    ("constant", "constant"),
    ("result", "result"),
)
"""The CSS class and the text of each entry of the legend."""
# The picture brings its own ground, because it does not know that of the page or the notebook.
STYLE_SHEET = """
.plugrad-graph{--ground:#fff;--text:#1b1f24;--small:#4a525c;--line:#6b7480;--back:#b4470f;
--kernel:#e3edfd;--kernel-edge:#2f62c0;--backward:#fdebdf;--backward-edge:#b4470f;
--argument:#e2f3e5;--argument-edge:#2c7a3d;--constant:#f1f2f4;--constant-edge:#8a929c;
--result:#f0e7fb;--result-edge:#6d3fb0}
@media (prefers-color-scheme:dark){.plugrad-graph{--ground:#14181e;--text:#eef1f5;--small:#b9c2cd;
--line:#8d98a5;--back:#f0955a;--kernel:#1c3157;--kernel-edge:#79a6f5;--backward:#4a2a16;
--backward-edge:#f0955a;--argument:#173a20;--argument-edge:#6fc283;--constant:#2a3038;
--constant-edge:#8d98a5;--result:#36245a;--result-edge:#b896ee}}
.plugrad-graph text{fill:var(--text);font:600 13px system-ui,sans-serif;text-anchor:middle}
.plugrad-graph text.l{fill:var(--small);font:11px ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
.plugrad-graph text.n{font:12px system-ui,sans-serif;text-anchor:start}
.plugrad-graph .g{fill:var(--ground)}
.plugrad-graph .e{fill:none;stroke:var(--line);stroke-width:1.4}
.plugrad-graph .e.b{stroke:var(--back)}
.plugrad-graph .e.s{stroke-dasharray:4 4;stroke-opacity:.65;stroke-width:1.1}
.plugrad-graph .h{fill:var(--line)}.plugrad-graph .h.b{fill:var(--back)}
.plugrad-graph rect.kernel{fill:var(--kernel);stroke:var(--kernel-edge)}
.plugrad-graph rect.backward{fill:var(--backward);stroke:var(--backward-edge)}
.plugrad-graph rect.argument{fill:var(--argument);stroke:var(--argument-edge)}
.plugrad-graph rect.constant{fill:var(--constant);stroke:var(--constant-edge)}
.plugrad-graph rect.result{fill:var(--result);stroke:var(--result-edge)}
"""
"""The CSS rules of the picture."""
CSS_CLASS_OF_KIND = {"variable": "argument", "start": "constant", "gradient": "result"}
"""The CSS classes of the kinds of nodes that look like another kind."""


def draw_svg(
    nodes: Sequence[Node], edges: Sequence[Edge], arrangement: Arrangement, function_name: str
) -> str:
    """Return the SVG element of an arranged graph."""
    legend = [entry for entry in LEGEND_ENTRIES if entry[0] in {_css_class(node) for node in nodes}]
    keys, right = _draw_legend(legend, has_saved_values=None in arrangement.leads_upwards.values())
    width = max(arrangement.width + 2 * PICTURE_MARGIN, right)
    height = arrangement.height + HEADER_HEIGHT + 2 * PICTURE_MARGIN
    shift = (width - arrangement.width) / 2
    title = escape(f"The kernels of {function_name}, and of its gradient")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="plugrad-graph" role="img" aria-label="{title}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">',
        f"<title>{title}</title><style>{STYLE_SHEET}</style>",
        f'<rect class="g" width="{width:.0f}" height="{height:.0f}" rx="8"/>',
        *keys,
        f'<g transform="translate({shift:.1f} {HEADER_HEIGHT + PICTURE_MARGIN})">',
        *(_draw_edge(nodes, arrangement, edge) for edge in edges),
        *(_draw_box(node, box) for node, box in zip(nodes, arrangement.boxes, strict=True)),
        "</g></svg>",
    ]
    return "\n".join(parts)


def _css_class(node: Node) -> str:
    """Return the class of a node in the style sheet."""
    if node.kind == "kernel" and node.is_backward:
        return "backward"
    return CSS_CLASS_OF_KIND.get(node.kind, node.kind)


def _draw_legend(
    entries: Sequence[tuple[str, str]], *, has_saved_values: bool
) -> tuple[list[str], float]:
    """Return the elements of the legend and their total width."""
    parts: list[str] = []
    x = float(PICTURE_MARGIN)
    y = PICTURE_MARGIN
    for kind, text in entries:
        parts.append(
            f'<rect class="{kind}" x="{x:.0f}" y="{y - 6}" width="16" height="12" rx="3"/>'
            f'<text class="n" x="{x + 22:.0f}" y="{y + 4}">{text}</text>'
        )
        x += 40 + len(text) * 6.4
    if has_saved_values:
        parts.append(
            f'<path class="e s" d="M{x:.0f} {y}h24"/>'
            f'<text class="n" x="{x + 30:.0f}" y="{y + 4}">kept for later</text>'
        )
        x += 130
    return parts, x


def _draw_box(node: Node, box: Box) -> str:
    """Return the SVG elements of a node: a box with lines of text and a tooltip."""
    left, top = box.x - box.width / 2, box.y - box.height / 2
    tooltip = escape("\n".join([node.title, *node.lines, *node.details]))
    radius = 5 if node.kind == "kernel" else min(box.height / 2, 16)
    lines = "".join(
        f'<text class="l" x="{box.x:.1f}" y="{top + 38 + 16 * i:.1f}">{escape(line)}</text>'
        for i, line in enumerate(node.lines)
    )
    return (
        f"<g><title>{tooltip}</title>"
        f'<rect class="{_css_class(node)}" x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:.0f}"/>'
        f'<text x="{box.x:.1f}" y="{top + 21:.1f}">{escape(node.title)}</text>{lines}</g>'
    )


def _draw_edge(nodes: Sequence[Node], arrangement: Arrangement, edge: Edge) -> str:
    """Return an edge as a curve with an arrowhead."""
    start, end = arrangement.boxes[edge.source], arrangement.boxes[edge.target]
    rises = arrangement.leads_upwards[edge]
    if rises is None:
        return _cross_block_edge(start, end, nodes[edge.target].is_backward)
    down = -1 if rises else 1
    points = [
        (start.x, start.y + down * start.height / 2),
        *arrangement.bends[edge],
        (end.x, end.y - down * (end.height / 2 + 7)),
    ]
    path = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
    colour = " b" if nodes[edge.target].is_backward else ""
    x, y = points[-1]
    head = f"M{x - 4:.1f} {y:.1f}h8L{x:.1f} {y + 7 * down:.1f}z"
    return f'<path class="e{colour}" d="{"".join(path)}"/><path class="h{colour}" d="{head}"/>'


def _cross_block_edge(start_box: Box, end_box: Box, is_backward: bool) -> str:
    """Return a dashed edge between blocks, from side to side."""
    to_right = 1 if end_box.x > start_box.x else -1
    x, to_x = (
        start_box.x + to_right * start_box.width / 2,
        end_box.x - to_right * (end_box.width / 2 + 7),
    )
    bend = to_right * max(40.0, abs(to_x - x) / 2)
    colour = " b" if is_backward else ""
    curve = (
        f"M{x:.1f} {start_box.y:.1f}C{x + bend:.1f} {start_box.y:.1f} "
        f"{to_x - bend:.1f} {end_box.y:.1f} {to_x:.1f} {end_box.y:.1f}"
    )
    head = f"M{to_x:.1f} {end_box.y - 4:.1f}v8L{to_x + 7 * to_right:.1f} {end_box.y:.1f}z"
    return f'<path class="e s{colour}" d="{curve}"/><path class="h{colour}" d="{head}"/>'
