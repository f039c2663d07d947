"""Data sets in files, as arrays of NumPy that `fit` and `batches` take.

Each kind of file is read by the library that is made for it, if it is installed: tables by pandas or polars, images by
Pillow. What is read stays on the host until a batch is converted.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError, ShapeError, is_interruption
from plugrad_nn.arguments import check_flag, check_integer, check_number, check_sizes
from plugrad_nn.batching import check_arrays, take_examples

if TYPE_CHECKING:
    from numpy.typing import NDArray

PathLike: TypeAlias = str | os.PathLike[str]
"""The path of a file."""
IDX_DTYPES: Final = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
"""The dtypes of IDX files by the third byte; the first byte of a number is the most significant one."""
IMAGE_SUFFIXES: Final = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
"""The suffixes of the files that `ImageFolder` takes."""


# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A table as numbers: rows are examples."""

    x: NDArray[np.float32]
    """The inputs, of shape (rows, features)."""
    y: NDArray[Any] | None
    """The labels of the rows, integers of classes or float32; None without `target`."""
    features: tuple[str, ...]
    """The names of the columns of `x`. A column of texts has one for each of them, such as ``"colour=red"``."""
    classes: tuple[str, ...] | None
    """The texts that the labels stand for; None if they are numbers."""


def read_table(
    path: PathLike, *, target: str | None = None, columns: Sequence[str] | None = None
) -> Table:
    r"""Return a table in a CSV or Parquet file as numbers.

    >>> path = folder / "pets.csv"
    >>> _ = path.write_text("weight,colour,kind\n4.5,red,cat\n9,grey,dog\n5,grey,cat")
    >>> table = nn.data.read_table(path, target="kind")
    >>> table.features, table.classes
    (('weight', 'colour=grey', 'colour=red'), ('cat', 'dog'))
    >>> table.x.tolist(), table.y.tolist()
    ([[4.5, 0.0, 1.0], [9.0, 1.0, 0.0], [5.0, 1.0, 0.0]], [0, 1, 0])

    Numbers and bools become float32, and missing ones NaN. Texts and categories become one column of 0 and 1 for each
    different one, in alphabetical order; a missing text has 0 in all. It is read by pandas if that is installed, and
    else by polars; Parquet needs pyarrow beside pandas.

    Args:
        path: a file whose name ends with .csv, .csv.gz or .parquet.
        target: the column of the labels. Texts and bools become the numbers of their classes, integers remain.
        columns: the other columns to take; None for all, but for the target.

    Raises:
        ArgumentError: neither library is installed, or a column is not there, or holds neither numbers nor texts.
        ArgumentValueError: the name of the file has another end, or a label is missing.
        FileNotFoundError: there is no such file.
    """
    found = _read_columns(Path(path))
    wanted = [name for name in found if name != target] if columns is None else list(columns)
    missing = [name for name in (*wanted, target) if name is not None and name not in found]
    if missing:
        raise ArgumentError(f"read_table: there is no column {missing[0]!r} among {[*found]}")
    names: list[str] = []
    parts: list[NDArray[np.float32]] = []
    for name in wanted:
        values = found[name]
        if values.dtype.kind in "biuf":
            names.append(name)
            parts.append(values.astype(np.float32).reshape(-1, 1))
            continue
        texts = [_as_text(name, value) for value in values]
        different = sorted({text for text in texts if text is not None})
        names += [f"{name}={text}" for text in different]
        marks = [[text == other for other in different] for text in texts]
        parts.append(np.array(marks, np.float32).reshape(len(texts), len(different)))
    rows = len(next(iter(found.values()))) if found else 0
    x = np.concatenate([np.zeros((rows, 0), np.float32), *parts], axis=1)
    y, classes = (None, None) if target is None else _read_labels(target, found[target])
    return Table(x, y, tuple(names), classes)


def _read_labels(
    column_name: str, values: NDArray[Any]
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Return the labels in a column, and the classes if they are texts."""
    if values.dtype.kind in "iu":
        labels = values.astype(np.int32)
        return (labels if (labels == values).all() else values), None
    if values.dtype.kind == "f":
        labels, is_missing = values.astype(np.float32), np.isnan(values)
        classes = None
    else:
        texts = [_as_text(column_name, value) for value in values]
        is_missing = np.array([text is None for text in texts], bool)
        different = sorted({text for text in texts if text is not None})
        numbers = {text: i for i, text in enumerate(different)}
        labels = np.array([numbers.get(text or "", 0) for text in texts], np.int32)
        classes = tuple(different)
    if is_missing.any():
        raise ArgumentValueError(
            f"read_table: row {int(is_missing.argmax())} has no label in column {column_name!r}; leave such rows out"
        )
    return labels, classes


def _as_text(column_name: str, value: Any) -> str | None:
    """Convert a value to text; a missing value gives None."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if value is None or value != value:
        return None
    raise ArgumentError(
        f"read_table: column {column_name!r} has {value!r:.80}, which is neither a number nor a text; name "
        "other columns="
    )


def _read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file by name: numbers, bools, or objects.

    Raises:
        ArgumentError, ArgumentValueError, FileNotFoundError: as for `read_table`.
    """
    is_csv = path.name.endswith((".csv", ".csv.gz"))
    if not is_csv and path.suffix != ".parquet":
        raise ArgumentValueError(
            f"read_table: path={str(path)!r} must end with .csv, .csv.gz or .parquet"
        )
    if not path.is_file():
        raise FileNotFoundError(f"read_table: there is no file {str(path)!r}")
    library = _import_one("read_table", "pandas", "polars")
    try:
        # Otherwise pandas takes the first column for an index if lines end with a comma, and shifts the others.
        options = {"index_col": False} if is_csv and library.__name__ == "pandas" else {}
        read = library.read_csv if is_csv else library.read_parquet
        frame: Any = read(path, **options)
    except ImportError as error:  # pandas has no engine for Parquet
        raise ArgumentError(
            f"read_table: pandas needs pyarrow for Parquet: pip install pyarrow ({error})"
        ) from error
    found: dict[str, NDArray[Any]] = {}
    for name in frame.columns:
        column = frame[name]
        values = np.asarray(column.to_numpy())
        if values.dtype.kind not in "biuf":  # texts, or numbers that pandas keeps as objects
            values = np.array(column.to_list(), object)
        found[str(name)] = values
    return found


# --- images ---------------------------------------------------------------------------------------


class ImageFolder:
    """Images in one folder per class, read when a batch is made.

    >>> from PIL import Image
    >>> for kind, colour in [("cats", "red"), ("dogs", "blue")]:
    ...     (folder / kind).mkdir()
    ...     Image.new("RGB", (20, 10), colour).save(folder / kind / "1.png")
    >>> images = nn.data.ImageFolder(folder, size=(4, 4))
    >>> images.classes, len(images)
    (('cats', 'dogs'), 2)
    >>> x, y = next(iter(images.batches(2)))
    >>> x.shape, x[0, 0, 0].tolist(), y.tolist()
    ((2, 4, 4, 3), [1.0, 0.0, 0.0], [0, 1])

    ``nn.fit(model, params, nn.prefetch(images.batches(32, seed=0)), …)`` reads ahead in a thread.

    Args:
        path: the folder; the names of those in it are the classes, in alphabetical order. Pillow opens the files.
        size: the size of all images, one number or (height, width); others are resized.
        mode: "RGB" or "L" for grey: how many channels there are.

    Raises:
        ArgumentError: Pillow is not installed, or the folder has no folders with images.
        ArgumentValueError: the size or the mode is none.
        FileNotFoundError: there is no such folder.
    """

    def __init__(self, path: PathLike, *, size: int | tuple[int, int], mode: str = "RGB") -> None:
        """Find the files."""
        if mode not in ("RGB", "L"):
            raise ArgumentValueError(f"ImageFolder: mode={mode!r} must be 'RGB' or 'L'")
        self.size: Final = check_sizes("ImageFolder", "size", size, 2)
        self.mode: Final = mode
        self._library = _import_one("ImageFolder", "PIL.Image", distribution="pillow")
        root = Path(path)
        if not root.is_dir():
            raise FileNotFoundError(f"ImageFolder: there is no folder {str(root)!r}")
        found = {
            place.name: sorted(f for f in place.iterdir() if f.suffix.lower() in IMAGE_SUFFIXES)
            for place in sorted(root.iterdir())
            if place.is_dir()
        }
        found = {name: files for name, files in found.items() if files}
        if not found:
            raise ArgumentError(
                f"ImageFolder: {str(root)!r} has no folders with images; it needs one for each class"
            )
        self.classes: Final = tuple(found)
        """The names of the classes."""
        self.paths: Final = tuple(file for files in found.values() for file in files)
        """The files."""
        counts = [len(files) for files in found.values()]
        self.labels: Final = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        """The number of the class of each file."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.paths)

    def read(self, places: Iterable[int]) -> NDArray[np.float32]:
        """Read the images at these places as float32 in [0, 1], of shape (images, height, width, channels).

        Raises:
            ArgumentValueError: a file is damaged, or has pixels of 32 bits, whose largest number is unknown.
        """
        return np.stack([self._read_one(self.paths[i]) for i in places])

    def batches(
        self,
        size: int = 32,
        *,
        seed: int | None = None,
        places: Sequence[int] | None = None,
        initial_epoch: int = 0,
    ) -> Iterable[tuple[NDArray[np.float32], NDArray[np.int32]]]:
        """Return an iterable of batches, pairs of images and labels.

        Args:
            size: the number of images in a batch.
            seed: what determines the order, which is another one each time the iterable is read; None for that of the
                files.
            places: the numbers of the images to take, such as `split` gives; None for all.
            initial_epoch: the number of epochs that were read before, in a training that continues.

        Raises:
            ArgumentError, ArgumentValueError: an argument is none of the above.
        """
        check_integer("ImageFolder.batches", "size", size, 1)
        if seed is not None:
            check_integer("ImageFolder.batches", "seed", seed)
        epoch = check_integer("ImageFolder.batches", "initial_epoch", initial_epoch)
        chosen = np.arange(len(self)) if places is None else np.asarray(places, int)
        return _Batches(
            lambda order: (self.read(order), self.labels[order]), chosen, size, seed, epoch
        )

    def _read_one(self, path: Path) -> NDArray[np.float32]:
        height, width = self.size
        try:
            with self._library.open(path) as image:
                # In older versions of Pillow, a PNG file of 16 bits has the mode I.
                is_deep = image.mode.startswith("I;16") or (image.mode, image.format) == (
                    "I",
                    "PNG",
                )
                is_unbounded = image.mode in ("I", "F") and not is_deep
                if is_deep:  # convert would cut off what is above 255
                    pixels = self._library.fromarray(np.asarray(image).astype(np.float32))
                else:
                    pixels = image.convert(self.mode)
                if pixels.size != (width, height):
                    pixels = pixels.resize((width, height), self._library.Resampling.BILINEAR)
        except (OSError, SyntaxError, ValueError) as error:
            if is_interruption(error):
                raise
            raise ArgumentValueError(f"ImageFolder: {str(path)!r} is damaged: {error}") from error
        if is_unbounded:
            raise ArgumentValueError(
                f"ImageFolder: {str(path)!r} has pixels of 32 bits, whose largest number is unknown; convert it to 8 "
                "or 16 bits"
            )
        values = np.asarray(pixels, np.float32) / np.float32(65535 if is_deep else 255)
        values = values.reshape(height, width, -1)
        return np.repeat(values, 3, axis=-1) if is_deep and self.mode == "RGB" else values


class _Batches(Iterable[tuple[Any, ...]]):
    """Batches of selected examples, in a new order each epoch."""

    def __init__(
        self,
        read: Callable[[NDArray[Any]], tuple[Any, ...]],
        places: NDArray[Any],
        size: int,
        seed: int | None,
        epoch: int,
    ) -> None:
        self.read, self.places, self.size, self.seed = read, places, size, seed
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.places) // self.size)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        order = self.places
        if self.seed is not None:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(order)
            self.epoch += 1
        for start in range(0, len(order), self.size):
            yield self.read(order[start : start + self.size])


# --- texts ----------------------------------------------------------------------------------------


def tokenize(
    texts: Iterable[str], tokenizer: Any, *, length: int, padding: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the tokens of texts in rows of one length, and a mask that is false for padding.

    >>> ids, mask = nn.data.tokenize(["ab", "abcd"], lambda text: list(text.encode()), length=3)
    >>> ids.tolist(), mask.sum(axis=1).tolist()
    ([[97, 98, 0], [97, 98, 99]], [2, 3])

    Args:
        texts: strings.
        tokenizer: an object of the library tokenizers, one of transformers, or a function from a text to integers.
        length: the length of a row; longer texts are cut off.
        padding: the number after the end of shorter ones.

    Raises:
        ArgumentError, ArgumentValueError: an argument is none of the above.
    """
    check_integer("tokenize", "length", length, 1)
    check_integer("tokenize", "padding", padding)
    if isinstance(texts, str):
        raise ArgumentError("tokenize: texts is one string; give a list of them")
    rows = [_encode(tokenizer, text)[:length] for text in texts]
    ids = np.full((len(rows), length), padding, np.int32)
    mask = np.zeros(ids.shape, bool)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = True
    return ids, mask


def _encode(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of a text."""
    encode = getattr(tokenizer, "encode", tokenizer)
    if not callable(encode):
        raise ArgumentError(
            f"tokenize: tokenizer={tokenizer!r:.80} must have a method encode, or be a function"
        )
    found: Any = encode(text)
    return [int(token) for token in getattr(found, "ids", found)]


def windows(
    tokens: Any, length: int, *, step: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return windows of a token sequence as inputs, and the same windows shifted by one as labels.

    >>> x, y = nn.data.windows(range(7), 3)
    >>> x.tolist(), y.tolist()
    ([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])

    Args:
        tokens: integers, at least one more than `length`.
        length: the length of a piece.
        step: how far the beginnings are apart; by default as far as pieces are long.

    Raises:
        ShapeError: the tokens are too few, or not in one row.
        ArgumentError, ArgumentValueError: an argument is none of the above, or a token does not fit int32.
    """
    check_integer("windows", "length", length, 1)
    step = length if step is None else check_integer("windows", "step", step, 1)
    given: NDArray[Any] = np.asarray(tokens if isinstance(tokens, np.ndarray) else list(tokens))
    if given.size and given.dtype.kind not in "iu":
        raise ArgumentError(f"windows: tokens are {given.dtype}; they must be integers")
    row: NDArray[np.int32] = given.astype(np.int32)
    if (row != given).any():
        raise ArgumentValueError(f"windows: token {given[row != given][0]} does not fit int32")
    if row.ndim != 1 or row.size <= length:
        raise ShapeError(
            f"windows: tokens have shape {row.shape}; they must be one row of at least {length + 1}"
        )
    starts = np.arange(0, row.size - length, step)[:, None] + np.arange(length)
    return row[starts], row[starts + 1]


# --- arrays ---------------------------------------------------------------------------------------


def read_idx(path: PathLike) -> NDArray[Any]:
    """Read an array from an IDX file, the format of MNIST; gzip is supported.

    >>> path = folder / "labels.idx"
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    >>> nn.data.read_idx(path)
    array([7, 2, 1], dtype=uint8)

    Raises:
        ArgumentValueError: the file is damaged, or no IDX file.
        FileNotFoundError: there is no such file.
    """
    content = Path(path).read_bytes()
    try:
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        if is_interruption(error):
            raise
        raise ArgumentValueError(f"read_idx: {os.fspath(path)!r} is damaged: {error}") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in IDX_DTYPES:
        raise ArgumentValueError(f"read_idx: {os.fspath(path)!r} does not begin as an IDX file")
    dtype, axes = np.dtype(IDX_DTYPES[content[2]]), content[3]
    start = 4 + 4 * axes
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    expected = start + dtype.itemsize * int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise ArgumentValueError(
            f"read_idx: {os.fspath(path)!r} has {len(content)} bytes; its head calls for {expected}"
        )
    values = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def read_npz(path: PathLike) -> dict[str, NDArray[Any]]:
    """Read the arrays of an .npz file by name.

    >>> np.savez(folder / "data.npz", x=np.ones(2), y=np.zeros(2))
    >>> sorted(nn.data.read_npz(folder / "data.npz"))
    ['x', 'y']

    Objects of Python are refused, because reading them could run a program.

    Raises:
        ArgumentValueError: the file is damaged, no NPZ file, or has objects.
        FileNotFoundError: there is no such file.
    """
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except FileNotFoundError:
        raise
    except Exception as error:  # of NumPy, zipfile and zlib, which differ by what is damaged
        if is_interruption(error):
            raise
        raise ArgumentValueError(
            f"read_npz: {os.fspath(path)!r} cannot be read: {error}"
        ) from error


def split(
    *arrays: Any, fraction: float = 0.2, seed: int = 0, stratify: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split arrays at random into a training part and a validation part.

    >>> x, y = np.arange(10.0), np.arange(10) % 2
    >>> (x_train, y_train), (x_test, y_test) = nn.data.split(x, y, fraction=0.2, stratify=True)
    >>> len(x_train), sorted(y_test.tolist())
    (8, [0, 1])

    Args:
        arrays: NumPy arrays, tensors or lists with one entry for each example, equally many in each.
        fraction: which part of the examples, rounded, becomes the second one; more than 0 and less than 1.
        seed: an integer, 0 or more.
        stratify: whether that is so for the examples of each class; the last array has the labels.

    Raises:
        ArgumentError, ArgumentValueError: there are no arrays, or another argument is none of the above.
        ShapeError: the arrays do not have equally many examples.
    """
    if check_number("split", "fraction", fraction, least=0, below=1) == 0:
        raise ArgumentValueError("split: fraction=0 must be more than 0")
    seed = check_integer("split", "seed", seed)
    given, count = check_arrays("split", arrays)
    order = np.random.default_rng(seed).permutation(count)
    groups = np.zeros(count, int)
    if check_flag("split", "stratify", stratify):
        labels: Any = given[-1]
        labels = labels.numpy() if isinstance(labels, plugrad.Tensor) else labels
        groups = np.unique(labels, return_inverse=True)[1].reshape(-1)
        if groups.size != count:
            raise ShapeError(
                f"split: the last array has shape {tuple(given[-1].shape)}; labels to stratify by have one axis"
            )
    is_second = np.zeros(count, bool)
    for group in range(int(groups.max()) + 1 if count else 0):
        members = order[groups[order] == group]
        is_second[members[: round(fraction * len(members))]] = True
    places = order[~is_second[order]], order[is_second[order]]
    first, second = (tuple(take_examples(x, chosen) for x in given) for chosen in places)
    return first, second


def _import_one(owner: str, *modules: str, distribution: str | None = None) -> Any:
    """Import the first of these modules that is installed; an error names the distribution to install.

    Raises:
        ArgumentError: none is.
    """
    for module in modules:
        try:
            return import_module(module)
        except ImportError:
            continue
    needed = distribution or " or ".join(modules)
    raise ArgumentError(f"{owner}: {needed} is needed: pip install {distribution or modules[0]}")
