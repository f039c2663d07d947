"""Cases of the kernel scan: products, transforms, layers and optimizers, at realistic sizes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from cases import FILTERS, IMAGES, THIN_FILTERS, functional, torch

import plugrad
from plugrad import fft, fused, image, linalg, losses, signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cases import Array, Cases


def add_product_cases(cases: Cases) -> None:
    """Add the cases of matrix products."""
    for size in (8, 64, 256, 512):
        square = cases.uniform(size, size)
        cases.add(
            f"matmul {size}",
            plugrad.matmul,
            torch and torch.matmul,
            square,
            square,
            gradient_positions=[0, 1],
        )
    square = cases.uniform(256, 256)
    cases.add(
        "matmul transposed",
        lambda a, b: fused.matmul(a, b, transpose_b=True),
        lambda a, b: a @ b.T,
        square,
        square,
    )
    heads = cases.uniform(96, 128, 64), cases.uniform(96, 64, 128)
    cases.add(
        "matmul batched", plugrad.matmul, torch and torch.matmul, *heads, gradient_positions=[0, 1]
    )
    cases.add(
        "matmul, 3-D by 2-D",
        plugrad.matmul,
        torch and torch.matmul,
        cases.uniform(8, 128, 256),
        cases.uniform(256, 256),
        gradient_positions=[0, 1],
    )
    cases.add(
        "matmul vector",
        plugrad.matmul,
        torch and torch.matmul,
        cases.uniform(1000, 1000),
        cases.uniform(1000),
    )
    cases.add_same_names("matmul", square.astype("d"), square.astype("d"))
    cases.add_same_names("matmul", cases.integers(128, 128), cases.integers(128, 128))
    cases.add_same_names("matmul", cases.complex(256, 256), cases.complex(256, 256))
    cases.add(
        "dense with relu",
        lambda x, w, b: fused.matmul(x, w, bias=b, activation="relu"),
        lambda x, w, b: torch.relu(torch.addmm(b, x, w)),
        *(cases.uniform(64, 784), cases.uniform(784, 256), cases.uniform(256)),
        gradient_positions=[0, 1, 2],
    )
    cases.add(
        "einsum",
        lambda a, b: plugrad.einsum("ij,jk->ik", a, b),
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
        square,
        square,
    )
    cases.add(
        "einsum bhid",
        lambda a, b: plugrad.einsum("bid,bjd->bij", a, b),
        lambda a, b: torch.einsum("bid,bjd->bij", a, b),
        heads[0],
        heads[0],
    )


def add_decomposition_cases(cases: Cases) -> None:
    """Add the cases of linear algebra."""
    square = cases.uniform(128, 128) / 4 + 4 * np.eye(cases.axis_size(128), dtype="f4")
    positive = square @ square.T
    for name, values in (
        ("inv", square),
        ("cholesky", positive),
        ("qr", square),
        ("eigh", positive),
    ):
        in_torch = getattr(torch.linalg, name) if torch else None
        first = name in ("qr", "eigh")
        cases.add(
            name,
            (lambda x: plugrad.abs(linalg.qr(x)[1]))
            if name == "qr"
            else (lambda x: linalg.eigh(x)[0])
            if first
            else getattr(linalg, name),
            (lambda x: torch.linalg.qr(x)[1].abs())
            if name == "qr"
            else (lambda x: torch.linalg.eigh(x)[0])
            if first
            else in_torch,
            values,
            gradient_positions=[0] if name in ("inv", "cholesky") else None,
        )
    cases.add(
        "solve",
        linalg.solve,
        torch and torch.linalg.solve,
        square,
        square[:, :8].copy(),
        gradient_positions=[0, 1],
    )
    cases.add("det", linalg.det, torch and torch.linalg.det, square[:8, :8].copy())


def add_fft_cases(cases: Cases) -> None:
    """Add the cases of Fourier transforms."""
    z, x = cases.complex(256, 1024), cases.uniform(256, 1024)
    cases.add("fft", fft.fft, torch and torch.fft.fft, z, gradient_positions=[0])
    cases.add("ifft", fft.ifft, torch and torch.fft.ifft, z)
    cases.add("rfft", fft.rfft, torch and torch.fft.rfft, x, gradient_positions=[0])
    if not cases.quick:
        cases.add(
            "stft",
            lambda x: signal.stft(x, 512, 128, 512),
            lambda x: (
                torch.stft(
                    x, 512, 128, window=torch.hann_window(512), center=False, return_complex=True
                ).T
            ),
            cases.uniform(100_000),
        )


def add_convolution_cases(cases: Cases) -> None:
    """Add the cases of convolutions."""
    x, n = cases.uniform(8, 56, 56, 32), cases.axis_size

    def layer(in_plugrad: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return lambda *tensors: in_plugrad(*tensors, **options)

    def conv(
        name: str,
        x: Array,
        filter: Array,
        axes: Any,
        in_plugrad: Any,
        in_torch: Any,
        **options: Any,
    ) -> None:
        pad, stride = (
            (filter.shape[0] - 1) // 2 * options.get("dilations", 1),
            options.get("strides", 1),
        )
        groups = filter.shape[2] if axes is THIN_FILTERS else 1
        cases.add(
            name,
            layer(in_plugrad, padding=pad, **options),
            lambda x, k: in_torch(
                x,
                k,
                padding=pad,
                stride=stride,
                dilation=options.get("dilations", 1),
                groups=groups,
            ),
            x,
            filter,
            gradient_positions=[0, 1],
            axes=(IMAGES, axes),
            out=IMAGES,
        )

    conv2d, in_torch = plugrad.conv2d, functional and functional.conv2d
    c = n(32)
    conv("conv2d 3x3", x, cases.uniform(3, 3, 32, 32), FILTERS, conv2d, in_torch)
    conv("conv2d 1x1", x, cases.uniform(1, 1, 32, 64), FILTERS, conv2d, in_torch)
    conv("conv2d 5x5", x[:2], cases.uniform(5, 5, 32, 32), FILTERS, conv2d, in_torch)
    conv(
        "conv2d 3x3, strides 2",
        x,
        cases.uniform(3, 3, 32, 64),
        FILTERS,
        conv2d,
        in_torch,
        strides=2,
    )
    conv(
        "conv2d 3x3, dilations 2",
        x,
        cases.uniform(3, 3, 32, 32),
        FILTERS,
        conv2d,
        in_torch,
        dilations=2,
    )
    conv(
        "conv2d of 3 channels",
        cases.uniform(1, 224, 224, 3),
        cases.uniform(3, 3, 3, 32),
        FILTERS,
        conv2d,
        in_torch,
        strides=2,
    )
    conv(
        "conv2d 14x14",
        cases.uniform(64, 14, 14, 16),
        cases.uniform(3, 3, 16, 32),
        FILTERS,
        conv2d,
        in_torch,
    )
    depthwise = plugrad.depthwise_conv2d
    conv("depthwise 3x3", x, cases.uniform(3, 3, c, 1), THIN_FILTERS, depthwise, in_torch)
    conv(
        "depthwise 3x3, strides 2",
        x,
        cases.uniform(3, 3, c, 1),
        THIN_FILTERS,
        depthwise,
        in_torch,
        strides=2,
    )
    shape = (min(8, len(x)), 2 * n(28), 2 * n(28), c)
    cases.add(
        "conv2d_transpose",
        lambda x, k: plugrad.conv2d_transpose(x, k, shape, strides=2, padding="same"),
        lambda x, k: functional.conv_transpose2d(x, k, stride=2),
        cases.uniform(8, 28, 28, 64),
        cases.uniform(2, 2, 32, 64),
        gradient_positions=[0, 1],
        axes=(IMAGES, FILTERS),
        out=IMAGES,
    )
    cases.add(
        "conv1d",
        layer(plugrad.conv1d, padding=1),
        lambda x, k: functional.conv1d(x, k, padding=1),
        cases.uniform(8, 1000, 32),
        cases.uniform(3, 32, 32),
        gradient_positions=[0, 1],
        axes=((0, 2, 1), (2, 1, 0)),
        out=(0, 2, 1),
    )
    cases.add(
        "conv3d",
        layer(plugrad.conv3d, padding="same"),
        lambda x, k: functional.conv3d(x, k, padding=1),
        cases.uniform(1, 16, 28, 28, 16),
        cases.uniform(3, 3, 3, 16, 16),
        gradient_positions=[0, 1],
        axes=((0, 4, 1, 2, 3), (4, 3, 0, 1, 2)),
        out=(0, 4, 1, 2, 3),
    )
    cases.add(
        "conv2d with bias and relu",
        lambda x, k, b: fused.conv2d(x, k, padding=1, bias=b, activation="relu"),
        lambda x, k, b: functional.relu(functional.conv2d(x, k, b, padding=1)),
        x,
        cases.uniform(3, 3, 32, 32),
        cases.uniform(32),
        gradient_positions=[0, 1, 2],
        axes=(IMAGES, FILTERS, None),
        out=IMAGES,
    )


def add_pooling_cases(cases: Cases) -> None:
    """Add the cases of pooling."""
    x = cases.uniform(8, 56, 56, 32)
    for name in ("max_pool", "avg_pool"):
        for size, strides in ((2, 2), (3, 2), (3, 1)):
            cases.add(
                f"{name} {size}, strides {strides}",
                lambda x, f=name, k=size, s=strides: getattr(plugrad, f)(x, k, s),
                lambda x, f=name, k=size, s=strides: getattr(functional, f"{f}2d")(x, k, s),
                x,
                gradient_positions=[0],
                axes=(IMAGES,),
                out=IMAGES,
            )
    cases.add(
        "max_pool3d",
        lambda x: plugrad.max_pool3d(x, 2),
        lambda x: functional.max_pool3d(x, 2),
        cases.uniform(1, 16, 28, 28, 16),
        gradient_positions=[0],
        axes=((0, 4, 1, 2, 3),),
        out=(0, 4, 1, 2, 3),
    )


def add_normalization_cases(cases: Cases) -> None:
    """Add the cases of normalization, losses and attention."""
    table, x = cases.uniform(1000, 1000), cases.uniform(8, 56, 56, 32)
    row, c = cases.uniform(1000), x.shape[-1]
    cases.add(
        "softmax",
        plugrad.softmax,
        lambda x: functional.softmax(x, -1),
        table,
        gradient_positions=[0],
    )
    cases.add(
        "softmax of 10",
        plugrad.softmax,
        lambda x: functional.softmax(x, -1),
        cases.uniform(100_000, 10),
        gradient_positions=[0],
    )
    cases.add(
        "softmax, axis 0",
        lambda x: plugrad.softmax(x, axis=0),
        lambda x: functional.softmax(x, 0),
        table,
    )
    cases.add(
        "log_softmax",
        plugrad.log_softmax,
        lambda x: functional.log_softmax(x, -1),
        table,
        gradient_positions=[0],
    )
    cases.add(
        "layer_norm",
        lambda x, b, w: plugrad.layer_norm(x, offset=b, scale=w),
        lambda x, b, w: functional.layer_norm(x, w.shape, w, b),
        table,
        row,
        row,
        gradient_positions=[0, 1, 2],
    )
    mean, variance = cases.uniform(c), cases.uniform(c, low=0.5)
    cases.add(
        "batch_norm",
        lambda x, m, v, b, w: plugrad.batch_norm(x, m, v, b, w),
        lambda x, m, v, b, w: functional.batch_norm(x, m, v, w, b, eps=1e-3),
        *(x, mean, variance, mean, variance),
        axes=(IMAGES, None, None, None, None),
        out=IMAGES,
    )
    cases.add(
        "batch_norm_training",
        lambda x, b, w: plugrad.batch_norm_training(x, b, w)[0],
        lambda x, b, w: functional.batch_norm(x, None, None, w, b, training=True, eps=1e-3),
        *(x, mean, variance),
        gradient_positions=[0, 1, 2],
        axes=(IMAGES, None, None),
        out=IMAGES,
    )
    cases.add(
        "local_response_normalization",
        lambda x: plugrad.local_response_normalization(x, 2, 1.0, 0.2),
        lambda x: functional.local_response_norm(x, 5, alpha=1.0, beta=0.5, k=1.0),
        x,
        axes=(IMAGES,),
        out=IMAGES,
    )
    heads = [cases.uniform(8, 4, 128, 64) for _ in range(3)]
    cases.add(
        "attention",
        plugrad.attention,
        functional and functional.scaled_dot_product_attention,
        *heads,
        gradient_positions=[0, 1, 2],
    )
    labels = np.eye(cases.axis_size(1000), dtype="f4")[cases.integers(1000, high=1000)]
    cases.add(
        "softmax_cross_entropy",
        lambda x, y: losses.softmax_cross_entropy(y, x),
        lambda x, y: functional.cross_entropy(x, y),
        table,
        labels,
        gradient_positions=[0],
    )
    cases.add(
        "mean_squared_error",
        lambda x, y: losses.mean_squared_error(y, x),
        lambda x, y: functional.mse_loss(x, y),
        table,
        labels,
        gradient_positions=[0],
    )


def add_image_cases(cases: Cases) -> None:
    """Add the cases of image ops."""
    x = cases.uniform(8, 56, 56, 32)
    size = (2 * x.shape[1], 2 * x.shape[2])
    for name, in_plugrad, mode, options in (
        ("resize_bilinear", image.resize_bilinear, "bilinear", {"half_pixel_centers": True}),
        ("resize_nearest_neighbor", image.resize_nearest_neighbor, "nearest", {}),
    ):
        cases.add(
            name,
            lambda x, f=in_plugrad, o=options: f(x, size, **o),
            lambda x, mode=mode: functional.interpolate(x, size, mode=mode),
            x,
            gradient_positions=[0],
            axes=(IMAGES,),
            out=IMAGES,
        )
    cases.add("flip_left_right", image.flip_left_right, lambda x: torch.flip(x, [2]), x)


def add_optimizer_cases(cases: Cases) -> None:
    """Add the cases of optimizer steps on two matrices and two vectors."""
    shapes = [(784, 256), (256,), (256, 128), (128,)]
    for size, divisor in (("large", 1), ("small", 16)):
        weights = [cases.uniform(*(n // divisor for n in shape)) for shape in shapes]
        gradients = [cases.uniform(*w.shape) for w in weights]
        for name in ("SGD", "Momentum", "Adam"):
            cases.add(
                f"{name}, {size}",
                partial(_plugrad_optimizer_step, name),
                partial(_torch_optimizer_step, name),
                *weights,
                *gradients,
                is_prepared=True,
            )


def _plugrad_optimizer_step(name: str, *tensors: plugrad.Tensor) -> Callable[[], Any]:
    variables = [plugrad.Variable(x) for x in tensors[:4]]
    optimizer = getattr(plugrad.optimizers, name)(1e-4)

    def step() -> Any:
        optimizer.apply_gradients(zip(variables, tensors[4:], strict=True))
        return variables[-1]

    return step


def _torch_optimizer_step(name: str, *tensors: torch.Tensor) -> Callable[[], Any]:
    weights = tensors[:4]
    for weight, gradient in zip(weights, tensors[4:], strict=True):
        weight.grad = gradient
    if name == "Adam":
        optimizer: Any = torch.optim.Adam(weights, lr=1e-4)
    else:
        optimizer = torch.optim.SGD(weights, lr=1e-4, momentum=0.9 if name == "Momentum" else 0)

    def step() -> Any:
        optimizer.step()
        return weights[-1]

    return step


FAMILIES: Final[dict[str, Callable[[Cases], None]]] = {
    "linalg": add_product_cases,
    "decomposition": add_decomposition_cases,
    "signal": add_fft_cases,
    "convolution": add_convolution_cases,
    "pooling": add_pooling_cases,
    "normalization": add_normalization_cases,
    "image": add_image_cases,
    "optimizers": add_optimizer_cases,
}
