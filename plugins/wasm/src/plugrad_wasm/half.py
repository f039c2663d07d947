"""float16 for kernels whose exports compute in float32 and float64 only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from plugrad.extend import float16, float32
from plugrad.kernels import unary
from plugrad_wasm.deferred import Deferred

if TYPE_CHECKING:
    from plugrad.extend import Implementation
    from plugrad_wasm.memory import WasmArray

cast: Final = Deferred(unary.cast, "unary")


def through_float32(function: Implementation) -> Implementation:
    """Return an implementation that computes float16 in float32; the results are float16 again."""

    @wraps(function)
    def implementation(*arrays: WasmArray | None, **attrs: Any) -> Any:
        for x in arrays:
            if x is not None and x.dtype is float16:
                break
        else:
            return function(*arrays, **attrs)
        result: Sequence[WasmArray] | WasmArray = function(*(wide(x) for x in arrays), **attrs)
        return [narrow(y) for y in result] if isinstance(result, Sequence) else narrow(result)

    def wide(x: WasmArray | None) -> WasmArray | None:
        return cast(x, dtype=float32) if x is not None and x.dtype is float16 else x

    def narrow(y: WasmArray) -> WasmArray:
        return cast(y, dtype=float16) if y.dtype is float32 else y

    return implementation
