"""Gradients of the pooling kernels for images with three spatial axes."""

from plugrad.gradients.pooling import select_at_maximum
from plugrad.kernels import pooling3d
from plugrad.tape.rules import gradient

gradient(
    pooling3d.max_pool3d,
    x=lambda dy, x, out, attrs: pooling3d.max_pool3d_gradient(dy, x, out, **attrs),
)
gradient(pooling3d.avg_pool3d, x=lambda dy, x, attrs: pooling3d.avg_pool3d_gradient(dy, x, **attrs))

# Both are linear in dy, and their gradient is the transpose. The images only determine where dy goes,
# which does not change smoothly.
gradient(pooling3d.max_pool3d_gradient, dy=select_at_maximum)
gradient(pooling3d.avg_pool3d_gradient, dy=lambda dy, attrs: pooling3d.avg_pool3d(dy, **attrs))
