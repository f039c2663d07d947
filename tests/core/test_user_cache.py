"""The user's cache directory returns only complete files that the user has written."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plugrad.extend import UserCache

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")


@pytest.fixture
def cache_home(tmp_path, monkeypatch):
    """A cache directory and a temporary directory for this test only."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path


def only_file(cache):
    (file,) = cache.folder.iterdir()
    return file


def test_cached_content_is_read_in_other_processes(cache_home):
    UserCache("plugin").write("key", b"value" * 1000)
    assert UserCache("plugin").read("key") == b"value" * 1000
    UserCache("plugin").write("key", b"")
    assert UserCache("plugin").read("key") == b""
    assert UserCache("plugin").read("another key") is None
    assert UserCache("another plugin").read("key") is None


def test_a_damaged_file_is_not_read(cache_home):
    cache = UserCache("plugin")
    cache.write("key", b"value")
    whole = only_file(cache).read_bytes()
    for damaged in (
        b"",
        whole[:-1],
        whole[:10],
        whole + b"!",
        whole[:-1] + b"E",
        b"\0" + whole[1:],
    ):
        only_file(cache).write_bytes(damaged)
        assert cache.read("key") is None
    cache.write("key", b"new")
    assert cache.read("key") == b"new"


def test_the_file_of_another_key_is_not_read(cache_home):
    cache = UserCache("plugin")
    cache.write("key", b"value")
    file = only_file(cache)
    another = file.rename(file.with_name("another"))
    cache.write("other key", b"other value")
    (file_of_other,) = set(cache.folder.iterdir()) - {another}
    another.replace(file_of_other)
    assert cache.read("other key") is None


def test_a_directory_in_place_of_a_file_is_not_read(cache_home):
    cache = UserCache("plugin")
    cache.write("key", b"value")
    file = only_file(cache)
    file.unlink()
    (file / "inside").mkdir(parents=True)
    assert cache.read("key") is None
    cache.write("key", b"value")
    assert cache.read("key") is None
    assert [*cache.folder.iterdir()] == [file]


@posix_only
def test_files_and_directories_are_private(cache_home):
    cache = UserCache("plugin")
    cache.write("key", b"value")
    assert only_file(cache).stat().st_mode & 0o777 == 0o600
    assert cache.folder.stat().st_mode & 0o777 == 0o700


@posix_only
def test_files_writable_by_others_are_not_read(cache_home):
    cache = UserCache("plugin")
    cache.write("key", b"value")
    only_file(cache).chmod(0o620)
    assert cache.read("key") is None
    only_file(cache).chmod(0o600)
    assert cache.read("key") == b"value"
    link = only_file(cache)
    link.rename(cache_home / "elsewhere")
    link.symlink_to(cache_home / "elsewhere")
    assert cache.read("key") is None


@posix_only
@pytest.mark.parametrize("level", ["plugrad", "plugrad/plugin"])
def test_a_directory_that_others_can_write_to_is_not_used(cache_home, level):
    UserCache("plugin").write("key", b"value")
    (cache_home / "home" / level).chmod(0o777)
    cache = UserCache("plugin")
    assert cache.folder.is_relative_to(cache_home / "temporary")
    assert cache.read("key") is None
    cache.write("key", b"other")
    assert cache.read("key") == b"other"


@posix_only
def test_the_files_of_another_user_are_not_used(cache_home, monkeypatch):
    UserCache("plugin").write("key", b"value")
    another = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: another)
    cache = UserCache("plugin")
    assert cache.folder is None
    assert cache.read("key") is None
    cache.write("key", b"value")


def test_cache_stores_nothing_without_a_writable_directory(cache_home, monkeypatch):
    (cache_home / "home").write_text("a file, and not a directory")
    (cache_home / "temporary").rmdir()
    (cache_home / "temporary").write_text("likewise")
    cache = UserCache("plugin")
    cache.write("key", b"value")
    assert cache.read("key") is None


def test_a_full_disk_leaves_no_file(cache_home, monkeypatch):
    cache = UserCache("plugin")
    cache.write("key", b"value")

    def fail_for_lack_of_space(path, target):
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", fail_for_lack_of_space)
    cache.write("key", b"new value")
    assert cache.read("key") == b"value"
    assert only_file(cache)


def test_writers_and_readers_at_the_same_time(cache_home):
    values = [bytes([i]) * 100_000 for i in range(20)]

    def work(value):
        cache = UserCache("plugin")
        cache.write("key", value)
        return cache.read("key") in values

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, values * 5))
    assert only_file(UserCache("plugin"))
