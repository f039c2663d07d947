"""Small folders in Hugging Face's layout with seeded weights, which float16 and bfloat16 hold exactly."""

import json

import numpy as np

VOCABULARY_SIZE, FEATURE_COUNT, HIDDEN_SIZE, LAYER_COUNT, MAX_POSITIONS = 31, 16, 24, 2, 20
COMMON_CONFIG = {
    "hidden_size": FEATURE_COUNT,
    "num_hidden_layers": LAYER_COUNT,
    "num_attention_heads": 4,
}
CONFIG_OF_MODEL = {
    "bert": {
        **COMMON_CONFIG,
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
        "vocab_size": VOCABULARY_SIZE,
        "max_position_embeddings": MAX_POSITIONS,
        "type_vocab_size": 2,
        "intermediate_size": HIDDEN_SIZE,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
    },
    "gpt2": {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": VOCABULARY_SIZE,
        "n_positions": MAX_POSITIONS,
        "n_embd": FEATURE_COUNT,
        "n_head": 4,
        "n_inner": HIDDEN_SIZE,
        "n_layer": LAYER_COUNT,
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "vision_transformer": {
        **COMMON_CONFIG,
        "model_type": "vit",
        "architectures": ["ViTForImageClassification"],
        "image_size": 12,
        "patch_size": 4,
        "num_channels": 3,
        "intermediate_size": HIDDEN_SIZE,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "id2label": {"0": "cat", "1": "dog", "2": "bird"},
        "label2id": {"cat": 0, "dog": 1, "bird": 2},
    },
}


def linear_shapes(name, outputs, model_inputs):
    return {f"{name}.weight": (outputs, model_inputs), f"{name}.bias": (outputs,)}


def norm_shapes(name):
    return {f"{name}.weight": (FEATURE_COUNT,), f"{name}.bias": (FEATURE_COUNT,)}


def layer_shapes(name, attention, norms):
    """Return the shapes of a block of BERT or of a vision transformer."""
    own = linear_shapes(f"{name}.attention.output.dense", FEATURE_COUNT, FEATURE_COUNT)
    for part in ("query", "key", "value"):
        own |= linear_shapes(f"{name}.attention.{attention}.{part}", FEATURE_COUNT, FEATURE_COUNT)
    own |= linear_shapes(f"{name}.intermediate.dense", HIDDEN_SIZE, FEATURE_COUNT)
    own |= linear_shapes(f"{name}.output.dense", FEATURE_COUNT, HIDDEN_SIZE)
    return own | norm_shapes(f"{name}.{norms[0]}") | norm_shapes(f"{name}.{norms[1]}")


def tensor_shapes(kind):
    """Return the shapes of the tensors of a model by name."""
    found = {}
    if kind == "gpt2":
        found |= {"transformer.wte.weight": (VOCABULARY_SIZE, FEATURE_COUNT)}
        found |= {"transformer.wpe.weight": (MAX_POSITIONS, FEATURE_COUNT)} | norm_shapes(
            "transformer.ln_f"
        )
        for i in range(LAYER_COUNT):
            name = f"transformer.h.{i}"
            found |= norm_shapes(f"{name}.ln_1") | norm_shapes(f"{name}.ln_2")
            for part, (rows, columns) in {
                "attn.c_attn": (FEATURE_COUNT, 3 * FEATURE_COUNT),
                "attn.c_proj": (FEATURE_COUNT, FEATURE_COUNT),
                "mlp.c_fc": (FEATURE_COUNT, HIDDEN_SIZE),
                "mlp.c_proj": (HIDDEN_SIZE, FEATURE_COUNT),
            }.items():
                found |= {f"{name}.{part}.weight": (rows, columns)}
                found |= {f"{name}.{part}.bias": (columns,)}
    elif kind == "bert":
        for part, rows in {
            "word": VOCABULARY_SIZE,
            "position": MAX_POSITIONS,
            "token_type": 2,
        }.items():
            found[f"bert.embeddings.{part}_embeddings.weight"] = (rows, FEATURE_COUNT)
        found |= norm_shapes("bert.embeddings.LayerNorm")
        for i in range(LAYER_COUNT):
            norms = ("attention.output.LayerNorm", "output.LayerNorm")
            found |= layer_shapes(f"bert.encoder.layer.{i}", "self", norms)
        found |= linear_shapes("cls.predictions.transform.dense", FEATURE_COUNT, FEATURE_COUNT)
        found |= norm_shapes("cls.predictions.transform.LayerNorm")
        found["cls.predictions.bias"] = (VOCABULARY_SIZE,)
    else:
        found["vit.embeddings.cls_token"] = (1, 1, FEATURE_COUNT)
        found["vit.embeddings.position_embeddings"] = (1, 10, FEATURE_COUNT)
        name = "vit.embeddings.patch_embeddings.projection"
        found |= {f"{name}.weight": (FEATURE_COUNT, 3, 4, 4), f"{name}.bias": (FEATURE_COUNT,)}
        for i in range(LAYER_COUNT):
            norms = ("layernorm_before", "layernorm_after")
            found |= layer_shapes(f"vit.encoder.layer.{i}", "attention", norms)
        found |= norm_shapes("vit.layernorm") | linear_shapes("classifier", 3, FEATURE_COUNT)
    return found


def seeded_weights(kind):
    """Return tensors whose numbers are multiples of 1/256 from -1 to 1."""
    rng = np.random.default_rng(7)
    found = {}
    for name, shape in tensor_shapes(kind).items():
        numbers = np.clip(np.rint(rng.normal(size=shape) * 64) / 256, -1, 1)
        numbers = numbers + (name.lower().rpartition(".")[0].endswith(("norm", "ln_1", "ln_2")))
        found[name] = np.clip(numbers, -1, 1).astype(np.float32)
    return found


def make_folder(kind, folder, dtype="F32", files=1):
    """Write config.json and the weights, as `dtype` of the file format and in so many files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG_OF_MODEL[kind]), "utf-8")
    tensors = seeded_weights(kind)
    if files == 1:
        write_tensors(folder / "model.safetensors", tensors, dtype)
        return
    index = {}
    for i in range(files):
        name = f"model-{i + 1:05}-of-{files:05}.safetensors"
        part = dict(list(tensors.items())[i::files])
        write_tensors(folder / name, part, dtype)
        index |= dict.fromkeys(part, name)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}), "utf-8")


def write_tensors(path, tensors, dtype):
    """Write a file of safetensors; NumPy lacks bfloat16, which is the first half of the bits of float32."""
    header, parts, start = {}, [], 0
    for name, array in tensors.items():
        if dtype == "BF16":
            content = (array.view("<u4") >> 16).astype("<u2").tobytes()
        else:
            content = array.astype({"F32": "<f4", "F16": "<f2"}[dtype]).tobytes()
        end = start + len(content)
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": (start, end)}
        parts.append(content)
        start = end
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def model_inputs():
    """Return token ids, token types, the attention mask, and images."""
    rng = np.random.default_rng(3)
    tokens = rng.integers(0, VOCABULARY_SIZE, (2, 9)).astype(np.int32)
    types = (np.arange(9) > np.array([[4], [6]])).astype(np.int32)
    present = np.arange(9) < np.array([[9], [7]])
    return tokens, types, present, rng.normal(size=(2, 12, 12, 3)).astype(np.float32)
