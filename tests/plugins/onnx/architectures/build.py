"""Write well-known networks as models of ONNX, with what onnxruntime computes with them.

It needs torch, transformers, onnxscript and onnxruntime, and nothing of plugrad. `python build.py FOLDER`
writes networks of common sizes, which benchmarks/against_onnxruntime.py reads. With `--small` it writes those of
this folder, whose weights are left out because `seeding.py` makes them.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import torch
import transformers
from onnx import numpy_helper
from seeding import SEEDED_MIN_ELEMENTS, input_image, is_seeded, seeded_weights
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

NetworkAndInputs = tuple[nn.Module, tuple[torch.Tensor, ...]]


def conv_norm_act(
    i: int, o: int, size: int, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> nn.Module:
    """Return a convolution followed by batch normalization and an activation."""
    conv = nn.Conv2d(i, o, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(o), *([act()] if act else []))


class ResidualBlock(nn.Module):
    """A residual block: the activation of the sum of two branches."""

    def __init__(
        self, way: nn.Module, other: nn.Module | None = None, act: Any = nn.Identity
    ) -> None:
        super().__init__()
        self.way, self.other, self.act = way, other or nn.Identity(), act()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.way(x) + self.other(x))


class ClassifierHead(nn.Sequential):
    """Global average pooling and a linear classifier."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def lenet(small: bool) -> NetworkAndInputs:
    """LeNet (LeCun et al., 1998)."""
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 84), nn.Tanh(),
        nn.Linear(84, 10),
    )  # fmt: skip
    return net, (torch.randn(2, 1, 28, 28),)


def residual_network(small: bool, counts: tuple[int, ...], factor: int) -> NetworkAndInputs:
    """Return a ResNet; its blocks have three convolutions if they multiply the channels by a factor."""
    width = 8 if small else 64

    def block(i: int, inner: int, stride: int) -> nn.Module:
        o = inner * factor
        if factor == 1:
            way = [conv_norm_act(i, o, 3, stride), conv_norm_act(o, o, 3, act=None)]
        else:
            way = [
                conv_norm_act(i, inner, 1),
                conv_norm_act(inner, inner, 3, stride),
                conv_norm_act(inner, o, 1, act=None),
            ]
        other = conv_norm_act(i, o, 1, stride, act=None) if stride > 1 or i != o else None
        return ResidualBlock(nn.Sequential(*way), other, nn.ReLU)

    blocks: list[nn.Module] = []
    channels = width
    for stage, count in enumerate(counts):
        for place in range(count):
            wide = width << stage
            blocks.append(block(channels, wide, 2 if stage and not place else 1))
            channels = wide * factor
    start = [conv_norm_act(3, width, 7, 2), nn.MaxPool2d(3, 2, 1)]
    net = nn.Sequential(*start, *blocks, ClassifierHead(channels, 10 if small else 1000))
    return net, (torch.randn(1, 3, *(64, 64) if small else (224, 224)),)


def resnet18(small: bool) -> NetworkAndInputs:
    """ResNet-18 (He et al., 2015)."""
    return residual_network(small, (2, 2, 2, 2), 1)


def resnet50(small: bool) -> NetworkAndInputs:
    """ResNet-50 (He et al., 2015)."""
    return residual_network(small, (3, 4, 6, 3), 4)


class FireBlock(nn.Module):
    """The block of SqueezeNet: a narrow 1 × 1 convolution, then two wide ones of different sizes."""

    def __init__(self, i: int, few: int, many: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(i, few, 1)
        self.expand = nn.ModuleList([nn.Conv2d(few, many, 1), nn.Conv2d(few, many, 3, padding=1)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.squeeze(x))
        return torch.cat([functional.relu(expand(x)) for expand in self.expand], 1)


def squeezenet(small: bool) -> NetworkAndInputs:
    """SqueezeNet 1.1 (Iandola et al., 2016)."""
    scale = 8 if small else 1
    classes = 10 if small else 1000
    layers: list[nn.Module] = [nn.Conv2d(3, 64 // scale, 3, 2), nn.ReLU()]
    channels = 64 // scale
    for few, many, pools in [
        (16, 64, True), (16, 64, False), (32, 128, True), (32, 128, False), (48, 192, True), (48, 192, False),
        (64, 256, False), (64, 256, False),
    ]:  # fmt: skip
        layers += [nn.MaxPool2d(3, 2, ceil_mode=True)] if pools else []
        layers.append(FireBlock(channels, few // scale, many // scale))
        channels = 2 * many // scale
    end = [nn.Conv2d(channels, classes, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *end), (torch.randn(1, 3, *(64, 64) if small else (224, 224)),)


def inverted_residual(
    i: int, o: int, size: int, stride: int, factor: int, act: Any, squeeze: bool = False
) -> nn.Module:
    """Return the inverted residual block of MobileNetV2 and EfficientNet."""
    wide = i * factor
    parts = [conv_norm_act(i, wide, 1, act=act)] if factor > 1 else []
    parts += [conv_norm_act(wide, wide, size, stride, wide, act)]
    parts += [SqueezeExcitation(wide, max(i // 4, 1))] if squeeze else []
    way = nn.Sequential(*parts, conv_norm_act(wide, o, 1, act=None))
    return ResidualBlock(way) if stride == 1 and i == o else way


class SqueezeExcitation(nn.Module):
    """Squeeze-and-excitation: channels weighted by a function of their averages."""

    def __init__(self, channels: int, few: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, few, 1), nn.SiLU(), nn.Conv2d(few, channels, 1),
            nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weigh(x)


def mobilenet_v2(small: bool) -> NetworkAndInputs:
    """MobileNetV2 (Sandler et al., 2018)."""
    table = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    scale = 8 if small else 1
    channels = 32 // scale
    blocks: list[nn.Module] = [conv_norm_act(3, channels, 3, 2, act=nn.ReLU6)]
    for factor, o, count, stride in table:
        for place in range(1 if small else count):
            blocks.append(
                inverted_residual(channels, o // scale, 3, 1 if place else stride, factor, nn.ReLU6)
            )
            channels = o // scale
    last = 1280 // scale
    net = nn.Sequential(
        *blocks,
        conv_norm_act(channels, last, 1, act=nn.ReLU6),
        ClassifierHead(last, 10 if small else 1000),
    )
    return net, (torch.randn(1, 3, *(64, 64) if small else (224, 224)),)


def efficientnet(small: bool) -> NetworkAndInputs:
    """EfficientNet-B0 (Tan and Le, 2019)."""
    table = [
        (1, 3, 16, 1, 1), (6, 3, 24, 2, 2), (6, 5, 40, 2, 2), (6, 3, 80, 3, 2), (6, 5, 112, 3, 1),
        (6, 5, 192, 4, 2), (6, 3, 320, 1, 1),
    ]  # fmt: skip
    scale = 8 if small else 1
    channels = 32 // scale
    blocks: list[nn.Module] = [conv_norm_act(3, channels, 3, 2, act=nn.SiLU)]
    for factor, size, o, count, stride in table:
        for place in range(1 if small else count):
            step = 1 if place else stride
            blocks.append(
                inverted_residual(channels, o // scale, size, step, factor, nn.SiLU, squeeze=True)
            )
            channels = o // scale
    last = 1280 // scale
    net = nn.Sequential(
        *blocks,
        conv_norm_act(channels, last, 1, act=nn.SiLU),
        ClassifierHead(last, 10 if small else 1000),
    )
    return net, (torch.randn(1, 3, *(64, 64) if small else (224, 224)),)


class ShuffleBlock(nn.Module):
    """The block of ShuffleNetV2."""

    def __init__(self, i: int, o: int, stride: int) -> None:
        super().__init__()
        half = o // 2
        inner = i if stride > 1 else half
        self.stride = stride
        self.way = nn.Sequential(
            conv_norm_act(inner, half, 1),
            conv_norm_act(half, half, 3, stride, half, None),
            conv_norm_act(half, half, 1),
        )
        self.other = nn.Sequential(conv_norm_act(i, i, 3, 2, i, None), conv_norm_act(i, half, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept, taken = (self.other(x), x) if self.stride > 1 else x.chunk(2, 1)
        x = torch.cat([kept, self.way(taken)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet_v2(small: bool) -> NetworkAndInputs:
    """ShuffleNetV2 (Ma et al., 2018)."""
    widths = (8, 16, 32, 64) if small else (24, 116, 232, 464)
    blocks: list[nn.Module] = [conv_norm_act(3, widths[0], 3, 2), nn.MaxPool2d(3, 2, 1)]
    for i, o, count in zip(widths, widths[1:], (4, 8, 4), strict=False):
        blocks.append(ShuffleBlock(i, o, 2))
        blocks += [ShuffleBlock(o, o, 1) for _ in range(1 if small else count - 1)]
    last = 64 if small else 1024
    net = nn.Sequential(
        *blocks, conv_norm_act(widths[-1], last, 1), ClassifierHead(last, 10 if small else 1000)
    )
    return net, (torch.randn(1, 3, *(64, 64) if small else (224, 224)),)


class UNet(nn.Module):
    """U-Net (Ronneberger et al., 2015)."""

    def __init__(self, width: int) -> None:
        super().__init__()

        def double(i: int, o: int) -> nn.Module:
            return nn.Sequential(conv_norm_act(i, o, 3), conv_norm_act(o, o, 3))

        self.down = nn.ModuleList([double(1, width), double(width, 2 * width)])
        self.low = double(2 * width, 4 * width)
        self.up = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.after = nn.ModuleList([double(4 * width, 2 * width), double(3 * width, width)])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.down[0](x)
        middle = self.down[1](functional.max_pool2d(high, 2))
        low = self.low(functional.max_pool2d(middle, 2))
        middle = self.after[0](torch.cat([self.up(low), middle], 1))
        wide = functional.interpolate(middle, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(self.after[1](torch.cat([wide, high], 1)))


def unet(small: bool) -> NetworkAndInputs:
    """Return a U-Net and its inputs."""
    return UNet(4 if small else 32), (torch.randn(1, 1, *(16, 16) if small else (128, 128)),)


class Yolo(nn.Module):
    """A YOLO-like detector (Redmon et al., 2016): boxes on two grids."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        act = nn.SiLU
        self.start = nn.Sequential(
            *(
                conv_norm_act(i, o, 3, 2, act=act)
                for i, o in ((3, width), (width, 2 * width), (2 * width, 4 * width))
            )
        )
        self.deep = conv_norm_act(4 * width, 8 * width, 3, 2, act=act)
        self.joined = conv_norm_act(32 * width, 4 * width, 1, act=act)
        self.outputs = 5 + classes
        self.fine = nn.Conv2d(8 * width, 3 * self.outputs, 1)
        self.coarse = nn.Conv2d(4 * width, 3 * self.outputs, 1)

    def boxes(self, x: torch.Tensor, stride: int) -> torch.Tensor:
        n, _, h, w = x.shape
        x = x.view(n, 3, self.outputs, h, w).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centers = (x[..., :2] * 2 - 0.5 + torch.stack((columns, rows), -1)) * stride
        sizes = (x[..., 2:4] * 2) ** 2 * stride
        return torch.cat((centers, sizes, x[..., 4:]), -1).reshape(n, -1, self.outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = self.start(x)
        far = self.deep(near)
        pooled = [functional.max_pool2d(far, size, 1, size // 2) for size in (5, 9, 13)]
        far = self.joined(torch.cat([far, *pooled], 1))
        wide = functional.interpolate(far, scale_factor=2, mode="nearest")
        fine = self.fine(torch.cat([wide, near], 1))
        return torch.cat([self.boxes(fine, 8), self.boxes(self.coarse(far), 16)], 1)


def yolo(small: bool) -> NetworkAndInputs:
    """Return a YOLO-like detector and its inputs."""
    return Yolo(4 if small else 16, 2 if small else 80), (
        torch.randn(1, 3, *(32, 32) if small else (256, 256)),
    )


class BidirectionalLSTM(nn.Module):
    """An embedding, two bidirectional LSTM layers, and a classifier."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(100, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.classes = nn.Linear(2 * width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.layers(self.words(x))[0][:, -1])


def lstm(small: bool) -> NetworkAndInputs:
    """Return a bidirectional LSTM classifier (Hochreiter and Schmidhuber, 1997) and its inputs."""
    return BidirectionalLSTM(8 if small else 128), (torch.randint(0, 100, (2, 6 if small else 40)),)


class PositionalCallWrapper(nn.Module):
    """A network of the transformers library as a function of positional inputs."""

    def __init__(self, net: nn.Module, call: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.net, self.call = net, call

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.call(self.net, *inputs)


def random_tokens(small: bool, length: int = 0) -> torch.Tensor:
    """Return two sequences of random tokens."""
    return torch.randint(3, 50 if small else 1000, (2, length or (6 if small else 32)))


def network_sizes(small: bool, **names: tuple[int, int]) -> dict[str, Any]:
    """Return the configuration of a network, small or full."""
    shared: dict[str, Any] = {"vocab_size": 50 if small else 1000, "attn_implementation": "eager"}
    return shared | {name: pair[0 if small else 1] for name, pair in names.items()}


def bert(small: bool) -> NetworkAndInputs:
    """BERT (Devlin et al., 2018)."""
    settings = network_sizes(
        small, hidden_size=(16, 256), num_hidden_layers=(1, 4), num_attention_heads=(2, 4),
        intermediate_size=(32, 1024), max_position_embeddings=(16, 128),
    )  # fmt: skip
    net = transformers.BertModel(transformers.BertConfig(**settings), add_pooling_layer=False)
    ids = random_tokens(small)
    mask = torch.ones_like(ids)
    mask[1, -2:] = 0
    return PositionalCallWrapper(
        net, lambda m, i, a: m(input_ids=i, attention_mask=a).last_hidden_state
    ), (
        ids,
        mask,
    )


def gpt2(small: bool) -> NetworkAndInputs:
    """GPT-2 (Radford et al., 2019)."""
    settings = network_sizes(
        small, n_embd=(16, 256), n_layer=(1, 4), n_head=(2, 4), n_positions=(16, 128)
    )
    net = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings, use_cache=False))
    return PositionalCallWrapper(net, lambda m, i: m(input_ids=i).logits), (random_tokens(small),)


def llama(small: bool) -> NetworkAndInputs:
    """LLaMA (Touvron et al., 2023), with grouped-query attention."""
    settings = network_sizes(
        small, hidden_size=(16, 256), num_hidden_layers=(1, 4), num_attention_heads=(4, 8),
        num_key_value_heads=(2, 4), intermediate_size=(32, 512), max_position_embeddings=(16, 128),
    )  # fmt: skip
    net = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings, use_cache=False))
    return PositionalCallWrapper(net, lambda m, i: m(input_ids=i).logits), (random_tokens(small),)


def t5(small: bool) -> NetworkAndInputs:
    """T5 (Raffel et al., 2019)."""
    settings = network_sizes(
        small, d_model=(16, 256), d_kv=(8, 64), d_ff=(32, 512), num_layers=(1, 3), num_heads=(2, 4)
    )
    net = transformers.T5ForConditionalGeneration(
        transformers.T5Config(**settings, use_cache=False, decoder_start_token_id=0)
    )
    inputs = (random_tokens(small), random_tokens(small, 5))
    return PositionalCallWrapper(
        net, lambda m, i, d: m(input_ids=i, decoder_input_ids=d).logits
    ), inputs


def whisper(small: bool) -> NetworkAndInputs:
    """Whisper (Radford et al., 2022)."""
    settings = network_sizes(
        small, d_model=(16, 128), encoder_layers=(1, 3), decoder_layers=(1, 3), encoder_attention_heads=(2, 4),
        decoder_attention_heads=(2, 4), encoder_ffn_dim=(32, 512), decoder_ffn_dim=(32, 512),
        num_mel_bins=(8, 80), max_source_positions=(10, 1500), max_target_positions=(16, 128),
    )  # fmt: skip
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    net = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(
            **settings, **special, use_cache=False, suppress_tokens=None, begin_suppress_tokens=None
        )
    )
    sound = torch.randn(1, 8 if small else 80, 20 if small else 3000)
    inputs = (sound, random_tokens(small, 5)[:1])
    return PositionalCallWrapper(
        net, lambda m, f, d: m(input_features=f, decoder_input_ids=d).logits
    ), inputs


NETWORKS = {
    build.__name__: build
    for build in (
        lenet, squeezenet, resnet18, resnet50, mobilenet_v2, efficientnet, shufflenet_v2, unet, yolo, lstm,
        bert, gpt2, llama, t5, whisper,
    )
}  # fmt: skip
NETWORKS_WITH_GRADIENTS = ("bert", "lstm", "squeezenet")
"""The networks whose gradients are written, too; their weights keep their names and shapes."""


def write_network(name: str, folder: Path, small: bool) -> None:
    """Write a model with seeded weights, its inputs, and the outputs of onnxruntime.

    Weights of common sizes are those with which PyTorch begins, and statistics are random, too.
    """
    torch.manual_seed(0)
    net, inputs = NETWORKS[name](small)
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    with torch.no_grad():
        # The exporter would fold normalizations, which other exporters leave, and change weights.
        kept = name in NETWORKS_WITH_GRADIENTS or any(
            isinstance(part, nn.BatchNorm2d) for part in net.modules()
        )
        program = torch.onnx.export(
            net.eval(), inputs, dynamo=True, opset_version=20, verbose=False, optimize=not kept
        )
    proto = program.model_proto
    trained = (
        {key for key, _ in net.named_parameters()} if name in NETWORKS_WITH_GRADIENTS else None
    )
    weights = [
        tensor
        for tensor in proto.graph.initializer
        if is_seeded(tensor) and (trained is None or tensor.name in trained)
    ]
    if small:
        for tensor in weights:
            array = seeded_weights(tensor.name, tuple(tensor.dims))
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    strip_metadata(proto)
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    given = {
        value.name: input_image(name, tuple(x.shape)) if x.is_floating_point() else x.numpy()
        for value, x in zip(session.get_inputs(), inputs, strict=True)
    }
    (result,) = session.run(None, given)
    arrays = {key: x for key, x in given.items() if x.dtype.kind == "i"}
    if small and name in NETWORKS_WITH_GRADIENTS:
        arrays |= torch_gradients(name, net, [torch.from_numpy(x) for x in given.values()], result)
    np.savez_compressed(folder / f"{name}.npz", expected=result, **arrays)
    if small:
        for tensor in weights:
            tensor.ClearField("raw_data")
    onnx.save(proto, folder / f"{name}.onnx")
    size = (folder / f"{name}.onnx").stat().st_size
    print(
        f"{name:15} {len(proto.graph.node):5} nodes {size:12,} bytes, outputs of {np.abs(result).max():.3g}"
    )


def torch_gradients(
    name: str, net: nn.Module, inputs: list[torch.Tensor], result: np.ndarray[Any, Any]
) -> dict[str, Any]:
    """Return PyTorch's gradients of a weighted sum of the outputs, by the names of the weights."""
    weights = dict(net.named_parameters())
    for key, weight in weights.items():
        if weight.numel() >= SEEDED_MIN_ELEMENTS:
            weight.data = torch.from_numpy(seeded_weights(key, tuple(weight.shape)))
    output = net(*inputs)
    assert np.abs(output.detach().numpy() - result).max() <= 1e-5 * np.abs(result).max(), name
    (output * torch.from_numpy(input_image(f"{name}/probe", tuple(output.shape)))).sum().backward()
    return {f"gradient of {key}": weight.grad.numpy() for key, weight in weights.items()}


def strip_metadata(proto: onnx.ModelProto) -> None:
    """Remove the metadata of a model, such as source locations."""
    graphs = [proto.graph, *proto.functions]
    for graph in graphs:
        for part in (*graph.node, graph):
            part.ClearField("metadata_props")
            part.ClearField("doc_string")
        graph.ClearField("value_info")
    for tensor in proto.graph.initializer:
        tensor.ClearField("metadata_props")
        tensor.ClearField("doc_string")
    for value in (*proto.graph.input, *proto.graph.output):
        value.ClearField("metadata_props")
    proto.ClearField("metadata_props")


def main() -> None:
    """Write the given networks, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(NETWORKS))
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in arguments.names:
        write_network(name, arguments.folder, arguments.small)


if __name__ == "__main__":
    main()
