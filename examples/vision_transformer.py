"""Say what a picture shows with a vision transformer, of a folder in Hugging Face's layout.

``python examples/vision_transformer.py FOLDER PICTURE`` reads config.json, which names the classes, and the weights.
It runs on the backend that plugrad chooses.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import plugrad
import plugrad_nn as nn
from plugrad import Tensor

NAME_REPLACEMENTS = {
    "vit": "",
    "embeddings.cls_token": "cls_token",
    "embeddings.position_embeddings": "position_embeddings",
    "embeddings.patch_embeddings.projection": "patches",
    "encoder.layer": "blocks",
    "attention.attention.query": "self_attn.q_proj",
    "attention.attention.key": "self_attn.k_proj",
    "attention.attention.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "layernorm_before": "norm1",
    "layernorm_after": "norm2",
    "layernorm": "norm",
    "pooler": None,
}


@dataclass(frozen=True)
class VisionTransformer(nn.Layer):
    """The classifier of Dosovitskiy et al. (2021): from images of shape (height, width, channels) to logits."""

    class_count: int
    patch_size: int
    features: int
    heads: int
    hidden_features: int
    block_count: int
    epsilon: float

    @property
    def norm(self) -> nn.LayerNorm:
        """The normalization, which the blocks and their result share."""
        return nn.LayerNorm(self.epsilon)

    @property
    def patches(self) -> nn.Conv2D:
        """The layer that makes a vector of each patch."""
        return nn.Conv2D(self.features, self.patch_size, self.patch_size)

    @property
    def blocks(self) -> nn.Sequential:
        """The transformer's blocks."""
        block = nn.TransformerEncoderBlock(
            self.heads, self.hidden_features, plugrad.gelu, norm_first=True, normalization=self.norm
        )
        return nn.Sequential(*[block] * self.block_count)

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[nn.Layer, Any]]:
        vectors = (self.count(shape), self.features)
        return {
            "patches": (self.patches, shape),
            "blocks": (self.blocks, vectors),
            "norm": (self.norm, vectors),
            "classifier": (nn.Dense(self.class_count), (self.features,)),
        }

    def build(self, generator: Any, shape: tuple[int, ...], dtype: Any) -> nn.Params:
        places = {"cls_token": 1, "position_embeddings": self.count(shape)}
        own = {
            name: generator.normal((1, n, self.features), 0.0, 0.02, dtype=dtype)
            for name, n in places.items()
        }
        return super().build(generator, shape, dtype) | own

    def count(self, shape: tuple[int, ...]) -> int:
        """Return the number of tokens: the patches, and the class token."""
        return (shape[0] // self.patch_size) * (shape[1] // self.patch_size) + 1

    def __call__(self, params: nn.Params, x: Any, mode: nn.Mode = nn.INFERENCE) -> Tensor:
        y = self.patches(params["patches"], x)
        y = plugrad.reshape(y, (len(x), -1, self.features))
        first = plugrad.broadcast_to(params["cls_token"], (len(x), 1, self.features))
        y = plugrad.concat([first, y], axis=1) + params["position_embeddings"]
        y = self.norm(params["norm"], self.blocks(params["blocks"], y, mode["blocks"]))
        return nn.Dense(self.class_count)(params["classifier"], y[:, 0])


def load(folder: Path) -> tuple[VisionTransformer, nn.Params, dict[str, Any]]:
    """Return the model of a folder, its parameters and its configuration."""
    config, tensors = nn.convert.read_folder(folder, device="cpu")
    model = VisionTransformer(
        len(tensors["classifier.bias"]),
        config["patch_size"],
        config["hidden_size"],
        config["num_attention_heads"],
        config["intermediate_size"],
        config["num_hidden_layers"],
        config["layer_norm_eps"],
    )
    shape = (config["image_size"], config["image_size"], config["num_channels"])
    return (
        model,
        nn.convert.state_dict(tensors, model, shape, names=NAME_REPLACEMENTS).params,
        config,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("picture", type=Path)
    given = parser.parse_args()

    import matplotlib.pyplot as plt  # reads pictures

    model, params, config = load(given.folder)
    pixels = np.asarray(plt.imread(given.picture))[None, ..., :3]
    largest = 255 if pixels.dtype == np.uint8 else 1  # of PNG, they are from 0 to 1
    image = plugrad.asarray(pixels, dtype="float32") / largest
    image = plugrad.image.resize_bilinear(image, (config["image_size"], config["image_size"]))
    weights = plugrad.softmax(model(params, image * 2 - 1))[0]  # from -1 to 1, as in training
    best = plugrad.top_k(weights, min(5, model.class_count))
    for weight, number in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        print(f"{weight:6.1%}  {config['id2label'][str(number)]}")


if __name__ == "__main__":
    main()
