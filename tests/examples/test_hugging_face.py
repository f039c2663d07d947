"""BERT, GPT-2 and a vision transformer of small folders compute what transformers computes, on every backend."""

import importlib.util
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import plugrad
from examples.hugging_face import folders

EXAMPLES_FOLDER = Path(__file__).parents[2] / "examples"
RECORDED_LOGITS_FILE = Path(__file__).parent / "hugging_face" / "logits.npz"


@cache
def import_example(name):
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES_FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found  # dataclasses look themselves up there
    spec.loader.exec_module(found)
    return found


@cache
def recorded_logits():
    with np.load(RECORDED_LOGITS_FILE) as file:
        return dict(file)


def load_small_model(kind, folder, **how):
    folders.make_folder(kind, folder, **how)
    return import_example(kind).load(folder)


def assert_close_to_recorded(found, kind):
    expected = recorded_logits()[kind]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("how", [{}, {"dtype": "F16"}, {"dtype": "BF16", "files": 3}], ids=str)
def test_bert_matches_transformers(how, tmp_path, backend):
    model, params = load_small_model("bert", tmp_path, **how)
    tokens, types, present, _ = folders.model_inputs()
    logits = model(params, plugrad.asarray(tokens), types=types, present=present)
    assert_close_to_recorded(logits.numpy(), "bert")


def test_vision_transformer_matches_transformers(tmp_path, backend):
    model, params, config = load_small_model("vision_transformer", tmp_path)
    assert_close_to_recorded(
        model(params, plugrad.asarray(folders.model_inputs()[-1])).numpy(), "vision_transformer"
    )
    assert config["id2label"]["1"] == "dog"


@pytest.mark.parametrize("how", [{}, {"dtype": "BF16", "files": 2}], ids=str)
def test_gpt2_matches_transformers(how, tmp_path, backend):
    """At once, and by steps of several tokens and of one, with what has been read in a state."""
    model, params = load_small_model("gpt2", tmp_path, **how)
    tokens = plugrad.asarray(folders.model_inputs()[0])
    assert_close_to_recorded(model(params, tokens).numpy(), "gpt2")
    state = model.initial_state(params, len(tokens), 12)
    found, start = {}, 0
    for end in (4, 5, 6, 9):
        logits, state = model.step(params, tokens[:, start:end], state)
        found[end - 1], start = logits.numpy(), end
    expected = recorded_logits()["gpt2"]
    for place, logits in found.items():
        np.testing.assert_allclose(logits, expected[:, place], rtol=0, atol=1e-4)


def test_gpt2_generates_the_same_tokens_as_transformers(tmp_path, backend):
    model, params = load_small_model("gpt2", tmp_path)
    tokens = folders.model_inputs()[0][0].tolist()
    found = list(import_example("gpt2").generate(model, params, tokens, 10))
    assert found == recorded_logits()["continued"].tolist()


def test_generation_traces_once_for_the_text_and_once_for_a_token(tmp_path):
    """Two traces: one of the text, and one of a token."""
    traces = []
    with plugrad.use("cpu"):
        model, params = load_small_model("gpt2", tmp_path)

        class Counted(type(model)):
            def step(self, params, x, state):
                traces.append(x.shape)
                return super().step(params, x, state)

        counted = Counted(**vars(model))
        assert len(list(import_example("gpt2").generate(counted, params, [1, 2, 3], 8))) == 8
    assert traces == [(1, 3), (1, 1)]


def choice_frequencies(**options):
    """Return how often each of five tokens is chosen."""
    logits = plugrad.asarray(
        np.tile(np.log([[0.4, 0.3, 0.15, 0.1, 0.05]]), (4000, 1)), dtype="float32"
    )
    plugrad.random.seed(5)
    given = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} | options
    return np.bincount(import_example("gpt2").choose(logits, **given).numpy(), minlength=5) / 4000


def test_tokens_are_chosen_by_their_probabilities(backend):
    np.testing.assert_allclose(choice_frequencies(), [0.4, 0.3, 0.15, 0.1, 0.05], atol=0.03)
    sharp = np.array([0.4, 0.3, 0.15, 0.1, 0.05]) ** 2
    np.testing.assert_allclose(choice_frequencies(temperature=0.5), sharp / sharp.sum(), atol=0.03)
    np.testing.assert_allclose(choice_frequencies(top_k=2), [4 / 7, 3 / 7, 0, 0, 0], atol=0.03)
    np.testing.assert_allclose(
        choice_frequencies(top_p=0.8), [8 / 17, 6 / 17, 3 / 17, 0, 0], atol=0.03
    )
    np.testing.assert_array_equal(choice_frequencies(top_p=0.1), [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(choice_frequencies(temperature=0), [1, 0, 0, 0, 0])


def test_empty_and_too_long_texts_are_rejected(tmp_path):
    with plugrad.use("cpu"):
        model, params = load_small_model("gpt2", tmp_path)
        for tokens in ([], [1] * 15):
            with pytest.raises(SystemExit, match="more than the 20"):
                next(import_example("gpt2").generate(model, params, tokens, 10))


def write_tokenizer(folder, words):
    """Write tokenizer.json: words between spaces."""
    tokenizers = pytest.importorskip("tokenizers")
    found = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[UNK]"))
    found.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    found.save(str(folder / "tokenizer.json"))


WORDS = {f"w{i}": i for i in range(29)} | {"[MASK]": 29, "[UNK]": 30}


@pytest.mark.parametrize(
    ("kind", "arguments", "expected"),
    [
        ("bert", ["w1 [MASK] w2"], 5),
        ("gpt2", ["w1 w2", "--tokens", "4", "--top-k", "3"], 1),
    ],
)
def test_text_programs_print_expected_output(
    kind, arguments, expected, tmp_path, monkeypatch, capsys
):
    folders.make_folder(kind, tmp_path)
    write_tokenizer(tmp_path, WORDS)
    monkeypatch.setattr(sys, "argv", [kind, str(tmp_path), *arguments])
    with plugrad.use("cpu"):
        import_example(kind).main()
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.strip()]) >= expected


def test_vision_transformer_program_prints_class_names(tmp_path, monkeypatch, capsys):
    folders.make_folder("vision_transformer", tmp_path)
    picture = EXAMPLES_FOLDER.parent / "docs" / "examples" / "images.jpg"
    monkeypatch.setattr(sys, "argv", ["vision_transformer", str(tmp_path), str(picture)])
    with plugrad.use("cpu"):
        import_example("vision_transformer").main()
    lines = capsys.readouterr().out.splitlines()
    assert sorted(line.split()[-1] for line in lines) == ["bird", "cat", "dog"]
