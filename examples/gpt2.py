"""Continue a text with GPT-2, of a folder in Hugging Face's layout, on the backend that plugrad chooses.

``python examples/gpt2.py FOLDER "The meaning of life is"`` reads config.json, the weights and, for texts,
tokenizer.json.
Keys and values of what has been read are kept, so that each token is one replay of a traced step.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plugrad
import plugrad_nn as nn
from plugrad import Tensor

NAME_REPLACEMENTS = {
    "transformer": "",
    "lm_head": None,  # the embeddings, once more
    "attn.bias": None,  # the causal mask of older files
    "attn.masked_bias": None,
    "ln_1": "norm1",
    "ln_2": "norm2",
    "attn.c_attn.weight": "self_attn.in_proj_weight",
    "attn.c_attn.bias": "self_attn.in_proj_bias",
    "attn.c_proj": "self_attn.out_proj",
    "mlp.c_fc": "linear1",
    "mlp.c_proj": "linear2",
}


@dataclass(frozen=True)
class GPT2(nn.Layer):
    """The language model of Radford et al. (2019): from tokens to the logits of the tokens that follow."""

    vocabulary_size: int
    max_positions: int
    features: int
    heads: int
    hidden_features: int
    block_count: int
    epsilon: float

    @property
    def block(self) -> nn.TransformerEncoderBlock:
        """The layer that all blocks share; each has its own parameters."""
        return nn.TransformerEncoderBlock(
            self.heads,
            self.hidden_features,
            lambda x: plugrad.gelu(x, approximate=True),
            norm_first=True,
            normalization=nn.LayerNorm(self.epsilon),
            causal=True,
        )

    def parts(self, shape: tuple[int, ...]) -> dict[str, tuple[nn.Layer, Any]]:
        vectors = (*shape, self.features)
        return {
            "wte": (nn.Embedding(self.vocabulary_size, self.features), shape),
            "wpe": (nn.Embedding(self.max_positions, self.features), shape),
            "h": (nn.Sequential(*[self.block] * self.block_count), vectors),
            "ln_f": (nn.LayerNorm(self.epsilon), vectors),
        }

    def __call__(self, params: nn.Params, x: Any, mode: nn.Mode = nn.INFERENCE) -> Tensor:
        y = self.embed(params, x, plugrad.arange(x.shape[1]))
        for name, own in params["h"].items():
            y = self.block(own, y, mode["h"][name])
        return self.logits(params, y)

    def initial_state(self, params: nn.Params, batch: int, places: int) -> list[Any]:
        """Return an empty key-value cache with room for a number of tokens."""
        return [self.block.initial_state(own, batch, places) for own in params["h"].values()]

    def step(self, params: nn.Params, x: Tensor, state: list[Any]) -> tuple[Tensor, list[Any]]:
        """Return the logits after the tokens that come next, and the state with them."""
        y, states = self.embed(params, x, state[0][-1] + plugrad.arange(x.shape[1])), []
        for own, past in zip(params["h"].values(), state, strict=True):
            y, new = self.block.step(own, y, past)
            states.append(new)
        return self.logits(params, y[:, -1:])[:, 0], states

    def embed(self, params: nn.Params, x: Tensor, positions: Tensor) -> Tensor:
        """Return the sums of the embeddings of tokens and of their positions."""
        vectors = plugrad.take(params["wte"]["embeddings"], x, axis=0)
        return vectors + plugrad.take(params["wpe"]["embeddings"], positions, axis=0)

    def logits(self, params: nn.Params, y: Tensor) -> Tensor:
        """Return the logits of the next token, given the results of the last block."""
        embeddings: Tensor = params["wte"]["embeddings"]
        return nn.LayerNorm(self.epsilon)(params["ln_f"], y) @ embeddings.T


def load(folder: Path) -> tuple[GPT2, nn.Params]:
    """Return the model of a folder and its parameters."""
    config, tensors = nn.convert.read_folder(folder, device="cpu")
    size = config["n_embd"]
    model = GPT2(
        config["vocab_size"],
        config["n_positions"],
        size,
        config["n_head"],
        config.get("n_inner") or 4 * size,
        config["n_layer"],
        config["layer_norm_epsilon"],
    )
    for name, tensor in tensors.items():  # its matrices are not transposed, unlike PyTorch's
        if tensor.ndim == 2 and (".attn." in name or ".mlp." in name):
            tensors[name] = tensor.T
    return model, nn.convert.state_dict(tensors, model, (1,), names=NAME_REPLACEMENTS).params


def choose(logits: Tensor, temperature: float, top_k: int, top_p: float) -> Tensor:
    """Return one token for each row of logits: the best at temperature 0, else a random one of the best."""
    if temperature == 0:
        return plugrad.argmax(logits, axis=-1)
    logits = logits / temperature
    if top_k:
        worst = plugrad.top_k(logits, top_k).values[:, -1:]
        logits = plugrad.where(logits < worst, -math.inf, logits)
    if top_p < 1:  # the fewest tokens whose probabilities add up to it (Holtzman et al., 2020)
        ordered = plugrad.sort(logits, axis=-1, descending=True)
        weights = plugrad.softmax(ordered)
        is_in = plugrad.cumulative_sum(weights, axis=-1) - weights < top_p
        worst = plugrad.min(plugrad.where(is_in, ordered, math.inf), axis=-1, keepdims=True)
        logits = plugrad.where(logits < worst, -math.inf, logits)
    return plugrad.random.multinomial(logits, 1)[:, 0]


def generate(
    model: GPT2,
    params: nn.Params,
    tokens: Sequence[int],
    count: int,
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Iterator[int]:
    """Yield `count` tokens that follow the given ones."""
    places = len(tokens) + count
    if not tokens or places > model.max_positions:
        raise SystemExit(
            f"{places} tokens are none, or more than the {model.max_positions} of the model"
        )

    @plugrad.jit
    def step(x: Tensor, state: list[Any]) -> tuple[Tensor, list[Any]]:
        logits, state = model.step(params, x, state)
        return choose(logits, temperature, top_k, top_p), state

    x, state = plugrad.asarray([tokens]), model.initial_state(params, 1, places)
    for _ in range(count):
        token, state = step(x, state)
        x = token[:, None]
        yield token.item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("text")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-k", type=int, default=50)
    parser.add_argument("--top-p", type=float, default=0.95)
    given = parser.parse_args()

    from tokenizers import Tokenizer  # texts need it, and the model does not

    tokenizer = Tokenizer.from_file(str(given.folder / "tokenizer.json"))
    tokens = tokenizer.encode(given.text).ids
    model, params = load(given.folder)
    options = {"temperature": given.temperature, "top_k": given.top_k, "top_p": given.top_p}
    for token in generate(model, params, list(tokens), given.tokens, **options):
        tokens.append(token)
        print(f"\r{tokenizer.decode(tokens)}", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
