"""Folders in the layout of Hugging Face: config.json, and weights in one file or in several."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import plugrad
from plugrad.extend import ArgumentError

if TYPE_CHECKING:
    from os import PathLike

    from plugrad import Tensor

WEIGHTS_FILE_NAME, INDEX_FILE_NAME, CONFIG_FILE_NAME = (
    "model.safetensors",
    "model.safetensors.index.json",
    "config.json",
)


def read_folder(
    path: str | PathLike[str], *, device: Any = None
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The configuration and the tensors of a model folder in Hugging Face's layout.

    >>> import json, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "config.json").write_text(json.dumps({"hidden_size": 2}))
    >>> plugrad.save(folder / "model.safetensors", {"weight": plugrad.ones((2, 2))})
    >>> config, tensors = nn.convert.read_folder(folder)
    >>> config["hidden_size"], tensors["weight"].shape
    (2, (2, 2))

    The weights are in ``model.safetensors``, or in the files that ``model.safetensors.index.json`` names, all in the
    folder itself. bfloat16 becomes float32. Nothing is downloaded, and nothing in the files is executed.

    Args:
        path: the folder.
        device: where the tensors go; by default the active backend.

    Raises:
        ArgumentError: `path` is no path.
        plugrad.errors.DamagedFile: a file is damaged, or the index names files outside the folder, or tensors
            that are not there.
        plugrad.errors.UnsupportedDtype: plugrad does not have the dtype of a tensor.
        OSError: a file cannot be read, such as FileNotFoundError if there is none.
    """
    try:
        folder = Path(path)
    except TypeError:
        raise ArgumentError(
            f"convert.read_folder: path={path!r:.80} must be the path of a folder"
        ) from None
    config = _read_json(folder / CONFIG_FILE_NAME)
    if (folder / WEIGHTS_FILE_NAME).exists() or not (folder / INDEX_FILE_NAME).exists():
        tensors = plugrad.load(folder / WEIGHTS_FILE_NAME, device=device)
        return config, _check_tensors(folder / WEIGHTS_FILE_NAME, tensors)
    return config, _read_shards(folder, device)


def _read_shards(folder: Path, device: Any) -> dict[str, Tensor]:
    """Read the tensors of all files that the index lists."""
    files: Any = _read_json(folder / INDEX_FILE_NAME).get("weight_map")
    if not isinstance(files, Mapping) or not all(isinstance(name, str) for name in files.values()):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        _raise_bad_folder(folder / INDEX_FILE_NAME, "weight_map must name the file of each tensor")
    files = cast("Mapping[str, str]", files)
    found: dict[str, Tensor] = {}
    for name in sorted(set(files.values())):
        if name != Path(name).name or name == ".." or "\\" in name or "\0" in name:
            _raise_bad_folder(
                folder / INDEX_FILE_NAME, f"it names {name!r:.80}, which is no file in its folder"
            )
        tensors = _check_tensors(folder / name, plugrad.load(folder / name, device=device))
        found |= {key: value for key, value in tensors.items() if files.get(key) == name}
    missing = [key for key in files if key not in found]
    if missing:
        _raise_bad_folder(
            folder / INDEX_FILE_NAME,
            f"it names {missing[0]!r:.80}, which {files[missing[0]]} does not have",
        )
    return found


def _check_tensors(path: Path, content: Any) -> dict[str, Tensor]:
    """Return the content of a file, checked to be tensors by name."""
    if not isinstance(content, dict):
        _raise_bad_folder(path, "it must hold tensors by name")
    tensors = cast("dict[str, Any]", content)
    for name, value in tensors.items():
        if not isinstance(value, plugrad.Tensor):
            _raise_bad_folder(
                path, f"{name!r:.80} is a {type(value).__name__}; it must hold tensors by name"
            )
    return tensors


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        _raise_bad_folder(path, f"it is no JSON: {error}")
    if not isinstance(content, dict):
        _raise_bad_folder(path, "it must be an object in JSON")
    return cast("dict[str, Any]", content)


def _raise_bad_folder(path: Path, reason: str) -> NoReturn:
    """Raise the error for a damaged folder."""
    raise plugrad.errors.DamagedFile(f"convert.read_folder: {path}: {reason}")
