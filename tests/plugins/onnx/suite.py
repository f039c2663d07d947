"""The tests of the package onnx: models with inputs and outputs; those of nodes are made by Python code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import plugrad
import plugrad_onnx
from plugrad_onnx.elements import as_array, numpy_dtype

RANDOM = "draws other random numbers than the suite has recorded"
PICTURES = "decodes pictures in files, which plugrad does not"
TRAINING = "is of a preview of operators for training; plugrad has optimizers"
TREES = "is an ensemble of trees"
NOISE = "wants the rounding of the float32 transform that made the recorded results, where zero is right"
ROUNDED = "differs by one unit of float16, of which the suite allows half"
HARNESS = "compares a sequence with an array, which the suite's own comparison refuses"

EXCLUDED = {
    **dict.fromkeys(
        [
            "bernoulli",
            "bernoulli_expanded",
            "bernoulli_double",
            "bernoulli_double_expanded",
            "bernoulli_seed",
            "bernoulli_seed_expanded",
            "training_dropout",
            "training_dropout_default",
            "training_dropout_default_mask",
            "training_dropout_mask",
        ],
        RANDOM,
    ),
    **dict.fromkeys(
        [
            f"image_decoder_decode_{kind}"
            for kind in [
                "bmp_rgb",
                "jpeg2k_rgb",
                "jpeg_bgr",
                "jpeg_grayscale",
                "jpeg_rgb",
                "png_rgb",
                "pnm_rgb",
                "tiff_rgb",
                "webp_rgb",
            ]
        ],
        PICTURES,
    ),
    **dict.fromkeys(
        [
            "adagrad",
            "adagrad_multiple",
            "adam",
            "adam_multiple",
            "gradient_of_add",
            "gradient_of_add_and_mul",
            "momentum",
            "momentum_multiple",
            "nesterov_momentum",
        ],
        TRAINING,
    ),
    **dict.fromkeys(
        ["ai_onnx_ml_tree_ensemble_set_membership", "ai_onnx_ml_tree_ensemble_single_tree"], TREES
    ),
    "attention_4d_causal_fp16": ROUNDED,
    "attention_4d_causal_fp16_expanded": ROUNDED,
    "loop16_seq_none": HARNESS,
    **dict.fromkeys(["dft_inverse", "dft_inverse_opset19"], NOISE),
}
"""By name without "test_": why a test does not pass on any backend."""


@dataclass(frozen=True)
class Case:
    """A model, and what comes out for what goes in."""

    name: str
    model: onnx.ModelProto
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    def check(self, times: int) -> None:
        """Run the model; a second time, what was computed once for a shape is used."""
        model = plugrad_onnx.load(self.model)
        declared = [value.name for value in self.model.graph.input]
        for inputs, outputs in self.sets:
            names = declared if len(inputs) == len(declared) else model.inputs
            for _ in range(times):
                results = model.run(dict(zip(names, inputs, strict=True)))
                arrays = [
                    plain(result, value.type)
                    for result, value in zip(results, self.model.graph.output, strict=True)
                ]
                Runner.assert_similar_outputs(outputs, arrays, rtol=self.rtol, atol=self.atol)


def plain(result: Any, kind: onnx.TypeProto | None) -> Any:
    """Return NumPy arrays of the dtype that the model says; the suite compares dtypes."""
    if isinstance(result, list):
        return [plain(part, None) for part in result]
    if result is None:
        return None
    array = as_array(result)
    if array.dtype.kind == "T":
        return array.astype(object)
    if kind is not None and kind.HasField("tensor_type"):
        return array.astype(numpy_dtype(kind.tensor_type.elem_type), copy=False)
    return array


@cache
def cases(kind: str) -> dict[str, Case]:
    """Return the tests of a kind by name."""
    found: dict[str, Case] = {}
    for case in load_model_tests(kind=kind):
        model, sets = case.model, case.data_sets
        if model is None:
            model, sets = from_folder(Path(case.model_dir))
        sets = [tuple([as_value(x) for x in side] for side in pair) for pair in sets]
        name = case.name.removeprefix("test_")
        found[name] = Case(name, model, sets, case.rtol, case.atol)
    return dict(sorted(found.items()))


def as_value(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def from_folder(folder: Path) -> tuple[onnx.ModelProto, list[Any]]:
    """Return the model of a folder, and its inputs and outputs."""
    model = onnx.load(folder / "model.onnx")
    sets = [
        tuple(
            [
                from_file(part / f"{side}_{place}.pb", value.type)
                for place, value in enumerate(values)
                if (part / f"{side}_{place}.pb").exists()
            ]
            for side, values in (("input", model.graph.input), ("output", model.graph.output))
        )
        for part in sorted(folder.glob("test_data_set_*"))
    ]
    return model, sets


def from_file(path: Path, kind: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def failures(
    chosen: list[Case], excluded: dict[str, str], times: int
) -> tuple[set[str], list[str]]:
    """Return the names of the tests that fail, and what is wrong with those that should not."""
    failed: set[str] = set()
    said: list[str] = []
    for case in chosen:
        try:
            with np.errstate(all="ignore"):
                case.check(times)
        except Exception as error:
            failed.add(case.name)
            if case.name not in excluded:
                said.append(f"{case.name}: {type(error).__name__}: {str(error)[:300]}")
    return failed, said


def with_own_dtypes() -> Any:
    """Return a block in which a backend computes in the nearest dtype that it has."""
    return plugrad.config.override("unsupported_dtype", "silent")
