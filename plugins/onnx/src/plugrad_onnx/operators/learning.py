"""The operators of classical machine learning that are arithmetic on tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import plugrad
from plugrad_onnx.elements import as_computable, as_tensor
from plugrad_onnx.operators.common import number_like
from plugrad_onnx.registry import operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plugrad import Tensor
    from plugrad_onnx.registry import HostArray

ONNX_ML_DOMAIN = "ai.onnx.ml"
"""The domain of ONNX's operators for classical machine learning."""


@operator("ArrayFeatureExtractor", domain=ONNX_ML_DOMAIN)
def array_feature_extractor(x: Tensor, indices: Tensor) -> Tensor:
    """Return the columns of x at indices."""
    taken = plugrad.take(x, plugrad.reshape(indices, (-1,)), axis=-1)
    return plugrad.reshape(taken, (1, -1)) if x.ndim == 1 else taken


@operator("Binarizer", domain=ONNX_ML_DOMAIN)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """Return 1 where x is above a threshold, else 0."""
    return plugrad.astype(plugrad.greater(x, number_like(threshold, x)), x.dtype)


@operator("LabelEncoder", domain=ONNX_ML_DOMAIN)
def label_encoder(
    x: HostArray,
    *,
    default_float: float = -0.0,
    default_int64: int = -1,
    default_string: str = "_Unused",
    default_tensor: Any = None,
    keys_floats: Sequence[float] | None = None,
    keys_int64s: Sequence[int] | None = None,
    keys_strings: Sequence[str] | None = None,
    keys_tensor: Any = None,
    values_floats: Sequence[float] | None = None,
    values_int64s: Sequence[int] | None = None,
    values_strings: Sequence[str] | None = None,
    values_tensor: Any = None,
) -> Any:
    """Map each key in x to its value, and every other element to a default."""
    keys = next(k for k in (keys_tensor, keys_floats, keys_int64s, keys_strings) if k is not None)
    options = (
        (values_tensor, None if default_tensor is None else default_tensor.ravel()[0]),
        (values_floats, np.float32(default_float)),
        (values_int64s, np.int64(default_int64)),
        (values_strings, default_string),
    )
    values, default = next((v, d) for v, d in options if v is not None)
    key_of = str if x.dtype.kind in "OTU" else float
    table = dict(zip((key_of(_decode_bytes(k)) for k in keys), values, strict=True))
    found = [table.get(key_of(v), default) for v in x.ravel()]
    kind = object if isinstance(default, str) else np.asarray(default).dtype
    return as_tensor(as_computable(np.array(found, kind).reshape(x.shape)))


def _decode_bytes(key: Any) -> Any:
    """Return bytes as a string, and any other key unchanged."""
    return key.decode() if isinstance(key, bytes) else key
