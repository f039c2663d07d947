"""Files as arrays: tables, images, texts, IDX and NPZ, and how examples are split."""

import gzip
import sys

import numpy as np
import pytest
from PIL import Image

import plugrad
import plugrad_nn as nn
from plugrad.extend import ArgumentError, ArgumentValueError, ShapeError

CSV_TEXT = """weight,colour,old,kind,legs,price
4.5,red,True,cat,4,1.5
,grey,False,dog,4,2.5
5,,True,cat,3,0.5
"""


class FakeDataFrame:
    """A fake polars DataFrame, whose strings have None for missing values."""

    def __init__(self, columns):
        self.found = {name: FakeColumn(values) for name, values in columns.items()}
        self.columns = [*columns]

    def __getitem__(self, name):
        return self.found[name]


class FakeColumn:
    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        is_text = any(isinstance(v, str) for v in self.values)
        return np.array(self.values, object if is_text else None)

    def to_list(self):
        return self.values


@pytest.fixture(params=["pandas", "polars"])
def csv_path(request, tmp_path, monkeypatch):
    """The path of a CSV file; one of two dataframe libraries is installed."""
    path = tmp_path / "pets.csv"
    path.write_text(CSV_TEXT)
    if request.param == "pandas":
        pytest.importorskip("pandas", reason="pandas is not installed")
        return path
    monkeypatch.setitem(sys.modules, "pandas", None)
    try:
        import polars  # noqa: F401
    except ImportError:

        class FakePandas:
            @staticmethod
            def read_csv(path):
                return FakeDataFrame(
                    {
                        "weight": [4.5, np.nan, 5.0],
                        "colour": ["red", "grey", None],
                        "old": [True, False, True],
                        "kind": ["cat", "dog", "cat"],
                        "legs": [4, 4, 3],
                        "price": [1.5, 2.5, 0.5],
                    }
                )

        monkeypatch.setitem(sys.modules, "polars", FakePandas)
    return path


def test_tables_become_numbers(csv_path):
    found = nn.data.read_table(csv_path, target="kind")
    assert found.features == ("weight", "colour=grey", "colour=red", "old", "legs", "price")
    expected = [[4.5, 0, 1, 1, 4, 1.5], [np.nan, 1, 0, 0, 4, 2.5], [5, 0, 0, 1, 3, 0.5]]
    np.testing.assert_array_equal(found.x, np.float32(expected))
    assert found.x.dtype == np.float32
    assert (found.y.tolist(), found.y.dtype, found.classes) == ([0, 1, 0], np.int32, ("cat", "dog"))
    some = nn.data.read_table(csv_path, target="legs", columns=["price"])
    assert (some.x.tolist(), some.y.tolist(), some.classes) == (
        [[1.5], [2.5], [0.5]],
        [4, 4, 3],
        None,
    )
    assert nn.data.read_table(csv_path, target="price", columns=[]).y.tolist() == [1.5, 2.5, 0.5]
    assert nn.data.read_table(csv_path, target="price", columns=[]).x.shape == (3, 0)
    assert nn.data.read_table(csv_path, target="old").classes == ("False", "True")
    assert nn.data.read_table(csv_path).y is None


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"target": "sort"}, ArgumentError, "no column 'sort' among"),
        ({"columns": ["sort"]}, ArgumentError, "no column 'sort' among"),
        ({"target": "colour"}, ArgumentValueError, "row 2 has no label in column 'colour'"),
        ({"target": "weight"}, ArgumentValueError, "row 1 has no label in column 'weight'"),
    ],
)
def test_columns_that_are_missing(csv_path, options, error, message):
    with pytest.raises(error, match=message):
        nn.data.read_table(csv_path, **options)


def test_tables_keep_columns_and_large_labels(tmp_path):
    pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,5000000000,\n3,4,\n")  # lines that end with a comma
    found = nn.data.read_table(path, target="b")
    assert (found.x.tolist(), found.y.tolist()) == ([[1], [3]], [5000000000, 4])


def test_parquet_tables_are_read(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    path = tmp_path / "pets.parquet"
    path.write_bytes(b"")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(ArgumentError, match="pip install pyarrow"):
            nn.data.read_table(path)
        return
    frame = pandas.DataFrame({"a": [1, 2], "kind": ["x", "y"], "when": pandas.to_datetime([1, 2])})
    frame.to_parquet(path)
    found = nn.data.read_table(path, target="kind", columns=["a"])
    assert (found.x.tolist(), found.y.tolist()) == ([[1], [2]], [0, 1])
    with pytest.raises(ArgumentError, match="column 'when' has"):
        nn.data.read_table(path)


def test_tables_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(ArgumentValueError, match=r"must end with \.csv"):
        nn.data.read_table(tmp_path / "pets.txt")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        nn.data.read_table(tmp_path / "pets.csv")
    (tmp_path / "pets.csv").write_text(CSV_TEXT)
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ArgumentError, match="pandas or polars is needed: pip install pandas"):
        nn.data.read_table(tmp_path / "pets.csv")


@pytest.fixture
def image_folder(tmp_path):
    for kind, colour in (("cats", (255, 0, 51)), ("dogs", (0, 102, 255)), ("none", None)):
        (tmp_path / kind).mkdir()
        for number in range(3 if colour else 0):
            Image.new("RGB", (6, 4), colour).save(tmp_path / kind / f"{number}.png")
    (tmp_path / "cats" / "notes.txt").write_text("no image")
    return tmp_path


def test_folders_of_images(image_folder, backend):
    images = nn.data.ImageFolder(image_folder, size=(4, 6))
    assert (len(images), images.classes) == (6, ("cats", "dogs"))
    assert images.labels.tolist() == [0, 0, 0, 1, 1, 1]
    x = images.read([0, 5])
    assert (x.shape, x.dtype) == ((2, 4, 6, 3), np.float32)
    np.testing.assert_allclose(x[:, 0, 0], [[1, 0, 0.2], [0, 0.4, 1]], atol=1e-6)
    assert nn.data.ImageFolder(image_folder, size=2, mode="L").read([0]).shape == (1, 2, 2, 1)
    batches = images.batches(4, seed=0)
    orders = [[y.tolist() for _, y in batches] for _ in range(6)]
    assert len(batches) == 2
    assert [len(part) for part in orders[0]] == [4, 2]
    assert len({str(order) for order in orders}) > 1
    again = images.batches(4, seed=0)
    assert [[y.tolist() for _, y in again] for _ in range(6)] == orders
    later = images.batches(4, seed=0, initial_epoch=4)
    assert [[y.tolist() for _, y in later] for _ in range(2)] == orders[4:]
    assert [y.tolist() for _, y in images.batches(2, places=[0, 4, 5])] == [[0, 1], [1]]
    model = nn.Sequential(nn.Flatten(), nn.Dense(2))
    results = nn.fit(
        model,
        model.init(0, (4, 6, 3)),
        nn.prefetch(batches),
        loss=nn.losses.sparse_softmax_cross_entropy,
        optimizer=plugrad.optimizers.Adam(0.05),
        epochs=15,
    )
    assert results[-1]["loss"] < 0.1


def test_images_of_16_bits_keep_their_numbers(tmp_path):
    (tmp_path / "a").mkdir()
    for name, number, dtype in [("1.png", 16383, np.uint16), ("2.tif", 16383, np.float32)]:
        Image.fromarray(np.full((4, 4), number, dtype)).save(tmp_path / "a" / name)
    images = nn.data.ImageFolder(tmp_path, size=2)
    x = images.read([0])
    assert x.shape == (1, 2, 2, 3)
    np.testing.assert_allclose(x, 16383 / 65535, rtol=1e-6)
    assert nn.data.ImageFolder(tmp_path, size=4, mode="L").read([0]).shape == (1, 4, 4, 1)
    with pytest.raises(ArgumentValueError, match=r"2\.tif' has pixels of 32 bits"):
        images.read([1])


def test_folders_without_images(image_folder, monkeypatch):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        nn.data.ImageFolder(image_folder / "birds", size=4)
    with pytest.raises(ArgumentError, match="no folders with images"):
        nn.data.ImageFolder(image_folder / "cats", size=4)
    with pytest.raises(ArgumentValueError, match="mode='CMYK'"):
        nn.data.ImageFolder(image_folder, size=4, mode="CMYK")
    path = image_folder / "cats" / "0.png"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ArgumentValueError, match=r"0\.png' is damaged"):
        nn.data.ImageFolder(image_folder, size=4).read([0])
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ArgumentError, match="pip install pillow"):
        nn.data.ImageFolder(image_folder, size=4)


def test_texts_are_tokenized():
    class Tokenizer:  # as those of the library tokenizers
        def encode(self, text):
            return type("Encoding", (), {"ids": [len(word) for word in text.split()]})

    ids, mask = nn.data.tokenize(["a bb ccc", "", "a a a a a"], Tokenizer(), length=4, padding=9)
    assert ids.tolist() == [[1, 2, 3, 9], [9, 9, 9, 9], [1, 1, 1, 1]]
    assert mask.tolist() == [[True] * 3 + [False], [False] * 4, [True] * 4]
    assert nn.data.tokenize([], Tokenizer(), length=4)[0].shape == (0, 4)
    with pytest.raises(ArgumentError, match="one string"):
        nn.data.tokenize("text", Tokenizer(), length=4)
    with pytest.raises(ArgumentError, match="tokenizer=3"):
        nn.data.tokenize(["text"], 3, length=4)


def test_tokenizer_of_a_library_is_used():
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    model = tokenizers.models.WordLevel({"a": 1, "bb": 2, "?": 0}, unk_token="?")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    assert nn.data.tokenize(["bb a c"], tokenizer, length=4)[0].tolist() == [[2, 1, 0, 0]]


def test_windows_of_token_sequences():
    x, y = nn.data.windows(np.arange(10), 4, step=3)
    assert x.tolist() == [[0, 1, 2, 3], [3, 4, 5, 6]]
    assert (y == x + 1).all()
    assert nn.data.windows(np.arange(5), 4)[1].tolist() == [[1, 2, 3, 4]]
    with pytest.raises(ShapeError, match="one row of at least 5"):
        nn.data.windows(np.arange(4), 4)
    with pytest.raises(ArgumentError, match="tokens are float64"):
        nn.data.windows([0.5, 1.5, 2.5], 2)
    with pytest.raises(ArgumentValueError, match="token 4294967296 does not fit int32"):
        nn.data.windows(np.array([1, 2**32, 3]), 2)


IDX_HEADER = bytes([0, 0, 11, 2, 0, 0, 0, 2, 0, 0, 0, 3])
IDX_NUMBERS = np.array([[1, -2, 3], [256, 5, 6]], ">i2")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_idx_files_are_read(compress, tmp_path):
    path = tmp_path / "numbers.idx"
    path.write_bytes(compress(IDX_HEADER + IDX_NUMBERS.tobytes()))
    found = nn.data.read_idx(path)
    assert found.dtype == np.int16
    np.testing.assert_array_equal(found, IDX_NUMBERS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin"),
        (b"\0\0\7\1\0\0\0\0", "does not begin"),
        (IDX_HEADER, "has 12 bytes; its head calls for 24"),
        (IDX_HEADER[:6], "has 6 bytes; its head calls for"),
        (b"\0\0\x0e\xff", "has 4 bytes"),
        (gzip.compress(IDX_HEADER, mtime=0)[:-4], "is damaged"),
        (gzip.compress(IDX_HEADER, mtime=0)[:10] + b"\xff" * 20, "is damaged"),
    ],
)
def test_damaged_idx_files(content, message, tmp_path):
    path = tmp_path / "numbers.idx"
    path.write_bytes(content)
    with pytest.raises(ArgumentValueError, match=message):
        nn.data.read_idx(path)


def test_npz_files_are_read(tmp_path):
    np.savez_compressed(tmp_path / "data.npz", x=IDX_NUMBERS, y=[1, 2])
    found = nn.data.read_npz(tmp_path / "data.npz")
    assert [*found] == ["x", "y"]
    np.testing.assert_array_equal(found["x"], IDX_NUMBERS)
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    (tmp_path / "half.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:80])
    for name in ("objects.npz", "half.npz"):
        with pytest.raises(ArgumentValueError, match="cannot be read"):
            nn.data.read_npz(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        nn.data.read_npz(tmp_path / "none.npz")


def test_examples_are_split(backend, rng):
    x, y = np.arange(50, dtype=np.float32), (np.arange(50) % 5 == 0).astype(np.int32)
    (a, b), (c, d) = nn.data.split(x, plugrad.asarray(y), fraction=0.3, seed=1)
    assert (len(a), len(c)) == (35, 15)
    assert sorted([*a, *c]) == x.tolist()
    assert isinstance(b, plugrad.Tensor)
    assert np.array_equal(b.numpy(), a % 5 == 0)
    assert np.array_equal(d.numpy(), c % 5 == 0)
    assert not np.array_equal(a, np.sort(a))
    assert np.array_equal(a, nn.data.split(x, fraction=0.3, seed=1)[0][0])
    (_, b), (_, d) = nn.data.split(x, y, fraction=0.3, stratify=True)
    assert (b.sum(), d.sum()) == (7, 3)
    assert nn.data.split(np.zeros((0, 2)))[0][0].shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.data.split(), ArgumentError, "one array or more"),
        (lambda: nn.data.split([1, 2], [1]), ShapeError, "one size"),
        (lambda: nn.data.split([1, 2], fraction=1.0), ArgumentValueError, "fraction=1.0"),
        (lambda: nn.data.split([1, 2], fraction=0), ArgumentValueError, "more than 0"),
        (lambda: nn.data.split([[1, 2]], stratify=True), ShapeError, "have one axis"),
    ],
)
def test_split_rejects_invalid_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
