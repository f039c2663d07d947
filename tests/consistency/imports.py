"""The import graph, read from the sources: also imports inside functions and for type checking only."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ImportGraph = dict[str, set[str]]


@cache
def module_files(*sources: Path) -> dict[str, Path]:
    """Return the files in source folders by their dotted module names."""
    found = {}
    for source in sources:
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_names(path: Path) -> set[str]:
    """Return the dotted names that a file imports; ``from a import b`` gives ``a.b``."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@cache
def import_graph(*sources: Path) -> ImportGraph:
    """Return the import graph of source folders: the modules that each module imports."""
    known = module_files(*sources)
    edges: ImportGraph = {}
    for name, path in known.items():
        owners = {n if n in known else n.rpartition(".")[0] for n in imported_names(path)}
        edges[name] = (owners & known.keys()) - {name}
    return edges


def import_cycles(edges: ImportGraph) -> list[list[str]]:
    """Return the strongly connected components of more than one module (Tarjan, 1972)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        path.append(node)
        for other in sorted(edges[node]):
            if other not in order:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in path:
                lowest[node] = min(lowest[node], order[other])
        if lowest[node] == order[node]:
            start = path.index(node)
            if len(path) - start > 1:
                found.append(sorted(path[start:]))
            del path[start:]

    for node in sorted(edges):
        if node not in order:
            visit(node)
    return found


def iter_lazy_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, statement) of each import inside a function."""
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    yield node.lineno, ast.unparse(node)
