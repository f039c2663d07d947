"""SwiGLU and GeGLU for plugrad.

>>> import plugrad, plugrad_acme_ops
>>> plugrad_acme_ops.swiglu(plugrad.asarray([0.0, 100.0]), plugrad.asarray([5.0, 5.0]))
tensor([  0., 500.], dtype=float32)
"""

from plugrad_acme_ops import (
    batching as batching,
    composites as composites,
    gradients as gradients,
)
from plugrad_acme_ops.ops import geglu as geglu, swiglu as swiglu
