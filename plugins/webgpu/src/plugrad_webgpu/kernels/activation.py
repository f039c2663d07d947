"""Activation functions."""

from __future__ import annotations

from plugrad.kernels import activation
from plugrad_webgpu.algorithms.bodies import leaky_relu, relu, relu6, relu6_gradient
from plugrad_webgpu.algorithms.expressions import elementwise, per_inexact_dtype, per_real_dtype
from plugrad_webgpu.declare import table

SELU_SCALE = 1.0507009873554805
"""The factor of both branches of SELU."""
SELU_ALPHA = 1.6732632423543772
"""The factor of exp(x) - 1 in SELU."""

RELU_WGSL = "maximum(x, 0.0)"
"""The WGSL of max(x, 0) for floats."""
RELU_INT64_WGSL = "maximum_i64(x, vec2u())"
"""The WGSL of max(x, 0) for int64."""
RELU6_WGSL = "minimum(maximum(x, 0.0), 6.0)"
"""The WGSL of x clipped to [0, 6]."""
ELU_WGSL = "select(expm1_accurate(x), x, x > 0.0)"
"""The WGSL of x where it is positive, else exp(x) - 1."""
SIGMOID_WGSL = "sigmoid(x)"
"""The WGSL of 1 / (1 + exp(-x))."""
LEAKY_RELU_WGSL = "select(parameters.alpha * x, x, x > 0.0)"
"""The WGSL of x where it is positive, else x times the attribute `alpha`."""
PRELU_WGSL = "select(alpha * x, x, x > 0.0)"
"""The WGSL of x where it is positive, else x times the weight `alpha`."""

table.update(
    {
        activation.relu: elementwise(
            per_real_dtype(RELU_WGSL, "max(x, 0)", "x", RELU_INT64_WGSL), body=relu
        ),
        activation.relu6: elementwise(
            per_real_dtype(
                RELU6_WGSL,
                "clamp(x, 0, 6)",
                "min(x, 6u)",
                f"minimum_i64({RELU_INT64_WGSL}, vec2u(6u, 0u))",
            ),
            body=relu6,
        ),
        activation.elu: elementwise(ELU_WGSL),
        activation.selu: elementwise(
            f"{SELU_SCALE} * select({SELU_ALPHA} * expm1_accurate(x), x, x > 0.0)"
        ),
        activation.sigmoid: elementwise(per_inexact_dtype(SIGMOID_WGSL, "complex_sigmoid(x)")),
        activation.softplus: elementwise("softplus(x)"),
        activation.leaky_relu: elementwise(LEAKY_RELU_WGSL, attributes=["alpha"], body=leaky_relu),
        activation.prelu: elementwise(PRELU_WGSL, ("x", "alpha"), body=leaky_relu),
        activation.gelu: elementwise("gelu(x)"),
        activation.gelu_tanh: elementwise("gelu_tanh(x)"),
        activation.gelu_gradient: elementwise("dy * gelu_slope(x)", ("dy", "x")),
        activation.gelu_tanh_gradient: elementwise("dy * gelu_tanh_slope(x)", ("dy", "x")),
        activation.relu6_gradient: elementwise(
            "select(dy, 0.0, y <= 0.0 || y >= 6.0)", ("dy", "y"), body=relu6_gradient
        ),
        activation.sigmoid_gradient: elementwise("dy * y * (1.0 - y)", ("dy", "y")),
        activation.elu_gradient: elementwise("select(dy * (y + 1.0), dy, y >= 0.0)", ("dy", "y")),
    }
)
