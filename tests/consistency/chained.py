"""Read the declarations of chainable methods for type checkers, and those of their ops."""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

from plugrad.ops import chained
from plugrad.tensor.tensor import Tensor

CORE_FOLDER = Path(__file__).parents[2] / "core" / "src" / "plugrad"
METHOD_FILES = {
    "ChainedOps": CORE_FOLDER / "tensor" / "chained.py",
    "Tensor": CORE_FOLDER / "tensor" / "tensor.py",
}
ANNOTATION_REPLACEMENTS = {
    "Tensor": "T",
    "TensorLike": "Like[T]",
    # What belongs to a package that the tensor's may not import is written out.
    "DeviceLike": "str | Backend",
    "MirrorMode": 'Literal["reflect", "symmetric"]',
    "Norm": 'Literal["backward", "ortho", "forward"]',
    "NormOrder": 'float | Literal["euclidean", "fro", "nuc"]',
    "PoolingType": 'Literal["max", "avg"]',
    "SequenceFormat": 'Literal["NWC", "NCW"]',
}
"""How names in the signatures of ops are spelled in the declarations."""


def chainable_ops() -> dict[str, Callable[..., Any]]:
    """Return the ops that are also methods of tensors (`x.add(y)`), by name."""
    names = sorted(name for group in chained.CHAINED_OPS.values() for name in group)
    return {name: inspect.unwrap(getattr(Tensor, name)) for name in names}


class AnnotationReplacer(ast.NodeTransformer):
    """Replaces the annotations of ops by those of the declared methods."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the replacement of a name."""
        return ast.parse(ANNOTATION_REPLACEMENTS.get(node.id, node.id), mode="eval").body


def expected_declaration(op: Callable[..., Any]) -> str:
    """Return the declaration that the method of an op must have, as source code."""
    function = ast.parse(dedent(inspect.getsource(op))).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [ast.Expr(ast.Constant(...))]
    function.decorator_list = []
    first = (function.args.posonlyargs or function.args.args)[0]
    first.arg, first.annotation = "self", None
    return ast.unparse(ast.fix_missing_locations(AnnotationReplacer().visit(function)))


def method_declarations() -> dict[str, str]:
    """Return the declarations of the methods, as source code, by name."""
    found = {}
    for name, path in reversed(METHOD_FILES.items()):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name == name:
                functions = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef)]
                found |= {f.name: ast.unparse(f) for f in functions}
    return found
