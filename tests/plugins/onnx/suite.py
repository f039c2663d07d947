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

RANDOM_REASON = "draws other random numbers than the suite has recorded"
IMAGE_DECODING_REASON = "decodes pictures in files, which plugrad does not"
TRAINING_REASON = "is of a preview of operators for training; plugrad has optimizers"
TREES_REASON = "is an ensemble of trees"
ROUNDING_REASON = "wants the rounding of the float32 transform that made the recorded results, where zero is right"
FLOAT16_REASON = "differs by one unit of float16, of which the suite allows half"
COMPARISON_REASON = "compares a sequence with an array, which the suite's own comparison refuses"

EXCLUDED_TESTS = {
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
        RANDOM_REASON,
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
        IMAGE_DECODING_REASON,
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
        TRAINING_REASON,
    ),
    **dict.fromkeys(
        ["ai_onnx_ml_tree_ensemble_set_membership", "ai_onnx_ml_tree_ensemble_single_tree"],
        TREES_REASON,
    ),
    "attention_4d_causal_fp16": FLOAT16_REASON,
    "attention_4d_causal_fp16_expanded": FLOAT16_REASON,
    "loop16_seq_none": COMPARISON_REASON,
    **dict.fromkeys(["dft_inverse", "dft_inverse_opset19"], ROUNDING_REASON),
}
"""By name without "test_": why a test does not pass on any backend."""


@dataclass(frozen=True)
class SuiteCase:
    """A test of the ONNX suite: a model with inputs and expected outputs."""

    name: str
    model: onnx.ModelProto
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    def check(self, times: int) -> None:
        """Run the model repeatedly, to test the cached plans for a shape."""
        model = plugrad_onnx.load(self.model)
        declared = [value.name for value in self.model.graph.input]
        for inputs, outputs in self.sets:
            names = declared if len(inputs) == len(declared) else model.inputs
            for _ in range(times):
                results = model.run(dict(zip(names, inputs, strict=True)))
                arrays = [
                    as_model_arrays(result, value.type)
                    for result, value in zip(results, self.model.graph.output, strict=True)
                ]
                Runner.assert_similar_outputs(outputs, arrays, rtol=self.rtol, atol=self.atol)


def as_model_arrays(result: Any, kind: onnx.TypeProto | None) -> Any:
    """Return arrays of the dtypes that the model declares; the suite compares dtypes."""
    if isinstance(result, list):
        return [as_model_arrays(part, None) for part in result]
    if result is None:
        return None
    array = as_array(result)
    if array.dtype.kind == "T":
        return array.astype(object)
    if kind is not None and kind.HasField("tensor_type"):
        return array.astype(numpy_dtype(kind.tensor_type.elem_type), copy=False)
    return array


@cache
def suite_cases(kind: str) -> dict[str, SuiteCase]:
    """Return the suite's tests of a kind, by name."""
    found: dict[str, SuiteCase] = {}
    for case in load_model_tests(kind=kind):
        model, sets = case.model, case.data_sets
        if model is None:
            model, sets = read_case_folder(Path(case.model_dir))
        sets = [tuple([as_value(x) for x in side] for side in pair) for pair in sets]
        name = case.name.removeprefix("test_")
        found[name] = SuiteCase(name, model, sets, case.rtol, case.atol)
    return dict(sorted(found.items()))


def as_value(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def read_case_folder(folder: Path) -> tuple[onnx.ModelProto, list[Any]]:
    """Return the model of a folder, and its inputs and outputs."""
    model = onnx.load(folder / "model.onnx")
    sets = [
        tuple(
            [
                read_case_value(part / f"{side}_{place}.pb", value.type)
                for place, value in enumerate(values)
                if (part / f"{side}_{place}.pb").exists()
            ]
            for side, values in (("input", model.graph.input), ("output", model.graph.output))
        )
        for part in sorted(folder.glob("test_data_set_*"))
    ]
    return model, sets


def read_case_value(path: Path, kind: onnx.TypeProto) -> Any:
    content = path.read_bytes()
    if kind.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if kind.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def failed_tests(
    chosen: list[SuiteCase], excluded: dict[str, str], times: int
) -> tuple[set[str], list[str]]:
    """Return the names of the tests that fail, with the reasons of those that should not."""
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


def convert_unsupported_dtypes() -> Any:
    """Return a context in which a backend converts unsupported dtypes to the nearest ones that it supports."""
    return plugrad.config.override("unsupported_dtype", "silent")
