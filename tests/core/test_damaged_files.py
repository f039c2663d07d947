"""Truncated files, invalid headers, and temporary files of killed processes."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import plugrad
from plugrad.errors import DamagedFile
from plugrad.saving import structure


@pytest.fixture
def tree_path(tmp_path):
    return tmp_path / "tree.safetensors"


def test_load_works_without_the_safetensors_library(tree_path, monkeypatch):
    plugrad.save(tree_path, {"x": plugrad.ones(2)})
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert plugrad.load(tree_path)["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("left", [0, 100, 8_000_000])
def test_file_truncated_while_it_is_read_raises_an_error(tree_path, left, monkeypatch):
    """It raises an error, and does not kill the process as a memory-mapped file would."""
    plugrad.save(tree_path, {"a": plugrad.ones(1_000_000), "b": plugrad.ones(1_500_000)})
    read = structure.asarray

    def truncate_then_read(*arguments, **options):
        os.truncate(tree_path, left)
        return read(*arguments, **options)

    monkeypatch.setattr(structure, "asarray", truncate_then_read)
    with pytest.raises(
        DamagedFile, match=r"tree\.safetensors is damaged.* cut off while tensor 'b'"
    ):
        plugrad.load(tree_path)
    with pytest.raises(DamagedFile, match=r"tree\.safetensors is damaged"):
        plugrad.load(tree_path)


def test_replaced_or_deleted_files_are_read_to_their_end(tree_path, monkeypatch):
    plugrad.save(tree_path, {"a": plugrad.ones(3), "b": plugrad.ones(2)})
    read = structure.asarray

    def delete_then_read(*arguments, **options):
        tree_path.unlink(missing_ok=True)
        return read(*arguments, **options)

    monkeypatch.setattr(structure, "asarray", delete_then_read)
    assert plugrad.load(tree_path)["b"].tolist() == [1.0, 1.0]


HUGE_NUMBER = "9" * 300
DAMAGED_HEADERS = {
    "huge size": f'{{"x": {{"dtype": "F32", "shape": [{HUGE_NUMBER}], "data_offsets": [0, 4]}}}}',
    "huge sizes": f'{{"x": {{"dtype": "F32", "shape": [{", ".join([HUGE_NUMBER] * 5000)}], "data_offsets": [0, 4]}}}}',
    "no elements of huge size": f'{{"x": {{"dtype": "F32", "shape": [0, {HUGE_NUMBER}], "data_offsets": [0, 0]}}}}',
    "huge offset": f'{{"x": {{"dtype": "F32", "shape": [1], "data_offsets": [{HUGE_NUMBER}, {HUGE_NUMBER}]}}}}',
    "too many digits": f'{{"x": {{"dtype": "F32", "shape": [{"9" * 5000}], "data_offsets": [0, 4]}}}}',
    "many axes": f'{{"x": {{"dtype": "F32", "shape": {[1] * 65}, "data_offsets": [0, 4]}}}}',
    "negative": '{"x": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}',
    "a bool": '{"x": {"dtype": "F32", "shape": [true], "data_offsets": [0, 4]}}',
    "overlap": '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, '
    '"y": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
    "twice": '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, '
    '"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
    "a gap": '{"x": {"dtype": "U8", "shape": [3], "data_offsets": [1, 4]}}',
    "unknown dtype": '{"x": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}}',
    "more fields": '{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "more": 1}}',
    "metadata": '{"__metadata__": {"a": 1}, "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
    "a list": "[]",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("header", DAMAGED_HEADERS.values(), ids=DAMAGED_HEADERS)
def test_invalid_headers_are_rejected_quickly(tree_path, header):
    tree_path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + b"\0" * 4)
    start = time.process_time()
    with pytest.raises(DamagedFile, match=r"tree\.safetensors is damaged"):
        plugrad.load(tree_path)
    assert time.process_time() - start < 1


def test_huge_integers_in_a_tree_survive_a_round_trip(tree_path):
    tree = {"n": 10**400, "key": {10**400: -(10**5000)}}
    plugrad.save(tree_path, tree)
    assert plugrad.load(tree_path) == tree


# --- what killed processes leave ------------------------------------------------------------------

KILLED_PROGRAM = """
import os, signal, sys
import plugrad
from plugrad.saving import checkpoint, structure

def stop(*arguments):
    print("started", flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)

checkpoint._iter_values = stop
plugrad.save(sys.argv[1], {"x": plugrad.ones(3)})
"""


def start_saving_process(path, what):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_PROGRAM, path, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "started\n"
    return process


@pytest.mark.skipif(os.name != "posix", reason="folders have no locks there")
def test_next_save_removes_temporary_files_of_killed_processes(tree_path):
    start_saving_process(tree_path, "kill").communicate()
    neighbour = tree_path.with_name("other.safetensors")
    start_saving_process(neighbour, "kill").communicate()
    assert len(os.listdir(tree_path.parent)) == 2
    plugrad.save(tree_path, 1)
    left = sorted(os.listdir(tree_path.parent))
    assert left[0].startswith(".other.safetensors.")
    assert left[1:] == [tree_path.name]
    assert plugrad.load(tree_path) == 1


@pytest.mark.skipif(os.name != "posix", reason="folders have no locks there")
def test_files_that_another_process_is_writing_are_kept(tree_path):
    process = start_saving_process(tree_path, "wait")
    before = os.listdir(tree_path.parent)
    plugrad.save(tree_path, 1)
    assert set(os.listdir(tree_path.parent)) == {*before, tree_path.name}
    process.communicate("")
    plugrad.save(tree_path, 2)
    assert os.listdir(tree_path.parent) == [tree_path.name]


def test_threads_that_save_to_one_path_leave_one_of_the_files(tree_path):
    def save(number):
        for _ in range(20):
            plugrad.save(tree_path, number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(4)))
    assert plugrad.load(tree_path) in range(4)
    assert os.listdir(tree_path.parent) == [tree_path.name]
