"""Fill the gaps of a text with BERT, of a folder in Hugging Face's layout, on the backend that plugrad chooses.

``python examples/bert.py FOLDER "Paris is the [MASK] of France."`` reads config.json, the weights and, for texts,
tokenizer.json.
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
    "bert": "",
    "gamma": "weight",  # of older files
    "beta": "bias",
    "embeddings.position_ids": None,
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "encoder.layer": "blocks",
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "linear1",
    "output.dense": "linear2",
    "output.LayerNorm": "norm2",
    "pooler": None,  # of tasks other than this one
    "cls.seq_relationship": None,
    "cls.predictions.decoder": None,  # the embeddings, once more
    "cls.predictions.transform.dense": "head",
    "cls.predictions.transform.LayerNorm": "head_norm",
    "cls.predictions.bias": "bias",
}


@dataclass(frozen=True)
class Bert(nn.Layer):
    """The language model of Devlin et al. (2019): from tokens to the logits of each token in its context."""

    vocabulary_size: int
    max_positions: int
    token_type_count: int
    features: int
    heads: int
    hidden_features: int
    block_count: int
    epsilon: float

    @property
    def norm(self) -> nn.LayerNorm:
        """The normalization, which the embeddings, the blocks and the head share."""
        return nn.LayerNorm(self.epsilon)

    @property
    def head(self) -> nn.Dense:
        """The layer between the last block and the logits."""
        return nn.Dense(self.features, plugrad.gelu)

    @property
    def block(self) -> nn.TransformerEncoderBlock:
        """The layer that all blocks share; each has its own parameters."""
        return nn.TransformerEncoderBlock(
            self.heads, self.hidden_features, plugrad.gelu, normalization=self.norm
        )

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[nn.Layer, Any]]:
        vectors = (*shape, self.features)
        return {
            "words": (nn.Embedding(self.vocabulary_size, self.features), shape),
            "positions": (nn.Embedding(self.max_positions, self.features), shape),
            "types": (nn.Embedding(self.token_type_count, self.features), shape),
            "norm": (self.norm, vectors),
            "blocks": (nn.Sequential(*[self.block] * self.block_count), vectors),
            "head": (self.head, vectors),
            "head_norm": (self.norm, vectors),
        }

    def build(self, generator: Any, shape: tuple[int, ...], dtype: Any) -> nn.Params:
        bias = plugrad.zeros((self.vocabulary_size,), dtype=dtype)
        return super().build(generator, shape, dtype) | {"bias": bias}

    def __call__(
        self,
        params: nn.Params,
        x: Any,
        mode: nn.Mode = nn.INFERENCE,
        *,
        types: Any = 0,
        present: Any = None,
    ) -> Tensor:
        """Return logits of shape (batch, length, vocabulary size).

        Args:
            params: what `load` returned.
            x: tokens of shape (batch, length).
            mode: inference or training.
            types: 0 for tokens of the first text and 1 for those of the second, of a shape that broadcasts.
            present: False for tokens that only fill up shorter texts; by default all are there.
        """
        words, types = params["words"]["embeddings"], plugrad.asarray(types)
        y = plugrad.take(words, x, axis=0) + params["positions"]["embeddings"][: x.shape[1]]
        y = self.norm(
            params["norm"], y + plugrad.take(params["types"]["embeddings"], types, axis=0)
        )
        mask = None if present is None else plugrad.asarray(present)[:, None, None, :]
        for name, own in params["blocks"].items():
            y = self.block(own, y, mode["blocks"][name], mask=mask)
        y = self.norm(params["head_norm"], self.head(params["head"], y))
        logits: Tensor = y @ words.T + params["bias"]
        return logits


def load(folder: Path) -> tuple[Bert, nn.Params]:
    """Return the model of a folder and its parameters."""
    config, tensors = nn.convert.read_folder(folder, device="cpu")
    model = Bert(
        config["vocab_size"],
        config["max_position_embeddings"],
        config["type_vocab_size"],
        config["hidden_size"],
        config["num_attention_heads"],
        config["intermediate_size"],
        config["num_hidden_layers"],
        config["layer_norm_eps"],
    )
    return model, nn.convert.state_dict(tensors, model, (1,), names=NAME_REPLACEMENTS).params


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("text")
    given = parser.parse_args()

    from tokenizers import Tokenizer  # texts need it, and the model does not

    tokenizer = Tokenizer.from_file(str(given.folder / "tokenizer.json"))
    tokens = np.array(tokenizer.encode(given.text).ids, np.int32)
    model, params = load(given.folder)
    weights = plugrad.softmax(model(params, tokens[None]))[0]
    for place in np.flatnonzero(tokens == tokenizer.token_to_id("[MASK]")):
        best = plugrad.top_k(weights[int(place)], 5)
        for weight, word in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            print(f"{weight:6.1%}  {tokenizer.id_to_token(word)}")


if __name__ == "__main__":
    main()
