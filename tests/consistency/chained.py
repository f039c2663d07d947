"""Read how the methods that chain are declared to type checkers, and how their ops are written."""

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

from plugrad.ops import chained
from plugrad.tensor.tensor import Tensor

CORE = Path(__file__).parents[2] / "core" / "src" / "plugrad"
DECLARED_IN = {"Chained": CORE / "tensor" / "chained.py", "Tensor": CORE / "tensor" / "tensor.py"}
SPELLED = {
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


def chaining() -> dict[str, Callable[..., Any]]:
    """Return the ops that chain, by name."""
    names = sorted(name for group in chained.CHAINED_OPS.values() for name in group)
    return {name: inspect.unwrap(getattr(Tensor, name)) for name in names}


class Spelling(ast.NodeTransformer):
    """Spell names as in the declarations."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return what stands for a name."""
        return ast.parse(SPELLED.get(node.id, node.id), mode="eval").body


def as_declared(op: Callable[..., Any]) -> str:
    """Return the declaration of the method that an op is."""
    function = ast.parse(dedent(inspect.getsource(op))).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [ast.Expr(ast.Constant(...))]
    function.decorator_list = []
    first = (function.args.posonlyargs or function.args.args)[0]
    first.arg, first.annotation = "self", None
    return ast.unparse(ast.fix_missing_locations(Spelling().visit(function)))


def declarations() -> dict[str, str]:
    """Return the declarations of methods by name."""
    found = {}
    for name, path in reversed(DECLARED_IN.items()):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name == name:
                functions = [n for n in ast.walk(node) if isinstance(n, ast.FunctionDef)]
                found |= {f.name: ast.unparse(f) for f in functions}
    return found
