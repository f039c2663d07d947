"""Cases of the kernel scan on few elements, where the time of a call is what Python does before and after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from cases import functional, torch

import plugrad
from plugrad import linalg, losses

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases import Cases


def add_cases_of_size(size: int, cases: Cases) -> None:
    """Add the cases of functions of a given number of elements, in one axis or in rows of 4."""
    x, y = cases.uniform(size, low=0.1, high=0.9), cases.uniform(size, low=0.1, high=0.9)
    rows = cases.uniform(size // 4, 4)
    places = cases.integers(4, high=size).astype("q")

    def add(
        name: str, in_plugrad: Callable[..., Any], in_torch: Callable[..., Any], *inputs: Any
    ) -> None:
        cases.add(f"{name} of {size}", in_plugrad, in_torch, *inputs)

    def add_same_names(names: str, *inputs: Any) -> None:
        before = len(cases.found)
        cases.add_same_names(names, *inputs)
        cases.found[before:] = [
            case._replace(name=f"{case.name} of {size}") for case in cases.found[before:]
        ]

    add_same_names(
        "abs exp log sqrt tanh sin square negative floor isnan sigmoid relu gelu softplus", x
    )
    add_same_names("add multiply divide subtract maximum pow less equal atan2 logaddexp", x, y)
    add_same_names("sum mean max prod argmax any", x)
    add_same_names("matmul", x, y)
    add_same_names("matmul", rows, rows.T.copy())
    add("x + 1", lambda x: x + 1, lambda x: x + 1, x)
    add("x ** 2", lambda x: x**2, lambda x: x**2, x)
    add("1 - x", lambda x: 1 - x, lambda x: 1 - x, x)
    add("x > 0.5", lambda x: x > 0.5, lambda x: x > 0.5, x)
    add("add a row", plugrad.add, torch and torch.add, rows, rows[0])
    add("where", plugrad.where, torch and torch.where, x > 0.5, x, y)
    add(
        "where of a number",
        lambda c, x: plugrad.where(c, x, 0.0),
        lambda c, x: torch.where(c, x, 0.0),
        *(x > 0.5, x),
    )
    add("clip", lambda x: plugrad.clip(x, 0.2, 0.8), lambda x: torch.clip(x, 0.2, 0.8), x)
    for source, target in (("float32", "int32"), ("int32", "float32"), ("bool", "float32")):
        dtypes = getattr(plugrad, target), getattr(torch, target, None)
        add(
            f"{source} to {target}",
            lambda x, t=dtypes[0]: plugrad.astype(x, t),
            lambda x, t=dtypes[1]: x.to(t),
            (x > 0.5).astype(source),
        )
    add("astype by name", lambda x: x.astype("float64"), lambda x: x.to(torch.float64), x)
    add("sum, axis 1", lambda x: plugrad.sum(x, axis=1), lambda x: torch.sum(x, 1), rows)
    add("mean, axis 0", lambda x: plugrad.mean(x, axis=0), lambda x: torch.mean(x, 0), rows)
    add("max, axis -1", lambda x: plugrad.max(x, axis=-1), lambda x: torch.amax(x, -1), rows)
    add(
        "std, axis 1",
        lambda x: plugrad.std(x, axis=1),
        lambda x: torch.std(x, 1, correction=0),
        rows,
    )
    add("argmax, axis 1", lambda x: plugrad.argmax(x, axis=1), lambda x: torch.argmax(x, 1), rows)
    add("cumulative sum", lambda x: plugrad.cumulative_sum(x, axis=0), lambda x: x.cumsum(0), x)
    add("norm", lambda x: linalg.vector_norm(x), lambda x: torch.linalg.vector_norm(x), x)
    add("softmax", plugrad.softmax, lambda x: torch.softmax(x, -1), rows)
    add("log_softmax", plugrad.log_softmax, lambda x: torch.log_softmax(x, -1), rows)
    add(
        "log_sum_exp",
        lambda x: plugrad.log_sum_exp(x, axis=1),
        lambda x: torch.logsumexp(x, 1),
        rows,
    )
    add(
        "layer_norm",
        lambda x: plugrad.layer_norm(x, variance_epsilon=1e-5),
        lambda x: functional.layer_norm(x, (4,)),
        rows,
    )
    add(
        "mean squared error",
        losses.mean_squared_error,
        functional and functional.mse_loss,
        *(x, y),
    )
    add("reshape", lambda x: plugrad.reshape(x, (-1, 2)), lambda x: torch.reshape(x, (-1, 2)), x)
    add("x.T", lambda x: x.T, lambda x: x.T, rows)
    add("permute_dims", lambda x: plugrad.permute_dims(x, (1, 0)), lambda x: x.permute(1, 0), rows)
    add("expand_dims", lambda x: plugrad.expand_dims(x, 1), lambda x: torch.unsqueeze(x, 1), x)
    add("squeeze", lambda x: plugrad.squeeze(x, 0), lambda x: torch.squeeze(x, 0), x[None])
    add("concat", lambda x, y: plugrad.concat([x, y]), lambda x, y: torch.cat([x, y]), x, y)
    add("stack", lambda x, y: plugrad.stack([x, y]), lambda x, y: torch.stack([x, y]), x, y)
    add("split", lambda x: plugrad.split(x, 2)[0], lambda x: torch.tensor_split(x, 2)[0], x)
    add("unstack", lambda x: plugrad.unstack(x, axis=1)[0], lambda x: torch.unbind(x, 1)[0], rows)
    add("tile", lambda x: plugrad.tile(x, (2,)), lambda x: torch.tile(x, (2,)), x)
    add("flip", lambda x: plugrad.flip(x, axis=0), lambda x: torch.flip(x, (0,)), x)
    add("roll", lambda x: plugrad.roll(x, 1, axis=0), lambda x: torch.roll(x, 1, 0), x)
    add("pad", lambda x: plugrad.pad(x, ((1, 2),)), lambda x: functional.pad(x, (1, 2)), x)
    add(
        "broadcast_to",
        lambda x: plugrad.broadcast_to(x, (2, size)),
        lambda x: torch.broadcast_to(x, (2, size)),
        x,
    )
    add("tril", plugrad.tril, torch and torch.tril, rows)
    add("x[1]", lambda x: x[1], lambda x: x[1], x)
    add("x[1:4]", lambda x: x[1:4], lambda x: x[1:4], x)
    add("take", lambda x, i: plugrad.take(x, i, axis=0), torch and torch.take, x, places)
    add("x[i]", lambda x, i: x[i], lambda x, i: x[i], x, places)
    add(
        "one_hot",
        lambda i: plugrad.one_hot(i, size),
        lambda i: functional.one_hot(i, size).float(),
        places,
    )
    add("sort", plugrad.sort, lambda x: torch.sort(x).values, x)
    add("argsort", plugrad.argsort, torch and torch.argsort, x)
    add("top 2", lambda x: plugrad.top_k(x, 2)[0], lambda x: torch.topk(x, 2)[0], x)
    add("zeros", lambda: plugrad.zeros(size), lambda: torch.zeros(size))
    add("ones of a shape", lambda: plugrad.ones((2, size)), lambda: torch.ones((2, size)))
    add("full", lambda: plugrad.full((size,), 0.5), lambda: torch.full((size,), 0.5))
    add("zeros_like", plugrad.zeros_like, torch and torch.zeros_like, x)
    add("ones_like", plugrad.ones_like, torch and torch.ones_like, x)
    add("full_like", lambda x: plugrad.full_like(x, 0.5), lambda x: torch.full_like(x, 0.5), x)
    add("arange", lambda: plugrad.arange(size), lambda: torch.arange(size, dtype=torch.int32))
    add("linspace", lambda: plugrad.linspace(0, 1, size), lambda: torch.linspace(0, 1, size))
    add("eye", lambda: plugrad.eye(8), lambda: torch.eye(8))
    values = x.tolist()
    add("asarray of a list", lambda: plugrad.asarray(values), lambda: torch.tensor(values))
    add("asarray of an array", lambda: plugrad.asarray(x), lambda: torch.tensor(x))


FAMILIES: Final[dict[str, Callable[[Cases], None]]] = {
    "few": partial(add_cases_of_size, 8),
    "some": partial(add_cases_of_size, 1000),
}
