"""Compare the time for a token of GPT-2, with and without a key-value cache, with transformers, on one thread.

``python benchmarks/against_transformers.py`` needs torch and transformers. Both read the same random weights,
and their times are taken in turns.
"""

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["PLUGRAD_NATIVE_THREADS"] = "1"

import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import transformers

import plugrad

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import gpt2

MODEL_CONFIG = {"n_layer": 6, "n_embd": 768, "n_head": 12, "vocab_size": 8000}
PROMPT_TOKENS, GENERATED_TOKENS, ROUNDS = 16, 24, 5


def time_call(function):
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with TemporaryDirectory() as folder:
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**MODEL_CONFIG)).save_pretrained(
            folder
        )
        peer = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
        model, params = gpt2.load(Path(folder))
    tokens = list(range(PROMPT_TOKENS))
    whole = torch.tensor([tokens + [0] * GENERATED_TOKENS])
    x = plugrad.asarray(whole.numpy().astype("int32"))
    at_once = plugrad.jit(lambda x: model(params, x)[:, -1])
    at_once(x).numpy()
    found = {
        name: []
        for name in ("plugrad", "plugrad, at once", "transformers", "transformers, at once")
    }
    with torch.no_grad():
        for _ in range(ROUNDS):
            steps = gpt2.generate(model, params, tokens, GENERATED_TOKENS)
            next(steps), next(steps)  # traced here
            found["plugrad"] += [
                time_call(lambda steps=steps: next(steps)) for _ in range(GENERATED_TOKENS - 2)
            ]
            found["plugrad, at once"].append(time_call(lambda: at_once(x).numpy()))
            past = peer(whole[:, :PROMPT_TOKENS], use_cache=True).past_key_values
            found["transformers"] += [
                time_call(lambda past=past, i=i: peer(whole[:, i : i + 1], past_key_values=past, use_cache=True))
                for i in range(PROMPT_TOKENS, PROMPT_TOKENS + GENERATED_TOKENS)
            ]  # fmt: skip
            found["transformers, at once"].append(time_call(lambda: peer(whole, use_cache=False)))
    for name, times in found.items():
        print(f"{name:24} {statistics.median(times):8.2f} ms for a token")


if __name__ == "__main__":
    main()
