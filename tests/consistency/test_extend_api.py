"""The public API of plugins changes only together with its version number."""

import re
from difflib import unified_diff

import pytest

from consistency import extend_api
from consistency.extend_api import (
    explain_mismatch,
    format_snapshot,
    parse_snapshot,
    required_api_number,
)
from consistency.test_packaging import PLUGIN_FOLDERS
from plugrad.discovery import manifest

COMMITTED_SNAPSHOT = extend_api.SNAPSHOT_FILE.read_text("utf-8")


def test_the_signatures_match_the_snapshot():
    lines = extend_api.describe_extend_api()
    changed = list(
        unified_diff(
            parse_snapshot(COMMITTED_SNAPSHOT)[2], lines, "snapshot", "now", n=0, lineterm=""
        )
    )
    what = (
        explain_mismatch(COMMITTED_SNAPSHOT, lines) or "run `make docs` and commit what it writes"
    )
    assert not changed, "\n".join([what, *changed])


def test_snapshot_api_number_matches_the_code():
    assert parse_snapshot(COMMITTED_SNAPSHOT)[0] == manifest.API_VERSION
    assert explain_mismatch(COMMITTED_SNAPSHOT, extend_api.describe_extend_api()) == ""


@pytest.mark.parametrize("plugin", PLUGIN_FOLDERS, ids=lambda path: path.name)
def test_first_party_plugins_use_a_supported_api_version(plugin):
    (file,) = plugin.glob("src/*/plugrad-*.toml")
    found = re.search(r'^api = "(\d+)\.(\d+)"$', file.read_text("utf-8"), re.M)
    assert manifest.is_api_supported((int(found[1]), int(found[2])))


RELEASED_SNAPSHOT = "plugin API 1.3, released with 0.4.0\na(x)\nb(y)\n"


def test_a_changed_extend_api_after_a_release_needs_another_version(monkeypatch):
    monkeypatch.setattr(manifest, "API_VERSION", (1, 3))
    assert explain_mismatch(RELEASED_SNAPSHOT, ["a(x)", "b(y)"]) == ""
    assert required_api_number(RELEASED_SNAPSHOT, ["a(x)", "b(y)", "c(z)"]) == (
        1,
        4,
    )  # old plugins run
    for changed in (["a(x, other)", "b(y)"], ["a(x)"]):  # old plugins may not run
        assert required_api_number(RELEASED_SNAPSHOT, changed) == (2, 0)
        assert "raise API in plugrad/discovery/manifest.py to 2.0" in explain_mismatch(
            RELEASED_SNAPSHOT, changed
        )
    monkeypatch.setattr(extend_api, "describe_extend_api", lambda: ["a(x)"])
    with pytest.raises(SystemExit, match=r"to 2\.0"):
        format_snapshot(RELEASED_SNAPSHOT)
    monkeypatch.setattr(manifest, "API_VERSION", (2, 0))
    assert format_snapshot(RELEASED_SNAPSHOT) == "plugin API 2.0, not released\na(x)\n"
    assert format_snapshot(format_snapshot(RELEASED_SNAPSHOT)) == format_snapshot(RELEASED_SNAPSHOT)


def test_api_number_changes_once_between_releases(monkeypatch):
    monkeypatch.setattr(manifest, "API_VERSION", (1, 4))
    monkeypatch.setattr(extend_api, "describe_extend_api", lambda: ["c(z)"])
    unreleased = RELEASED_SNAPSHOT.replace("1.3, released with 0.4.0", "1.4, not released")
    assert format_snapshot(unreleased) == "plugin API 1.4, not released\nc(z)\n"


def test_snapshot_has_each_kind_of_api_entry():
    lines = parse_snapshot(COMMITTED_SNAPSHOT)[2]
    assert lines == sorted(set(lines))
    for expected in (
        r"class Backend\(ABC\)",
        r"Backend\.from_numpy\(self, array: NDArray\[Any\]\) -> Any",
        r"Backend\.is_asynchronous",
        r"KernelConfig\(kernel_name: str, backend_name: str, .*",
        r"class DeviceLost\(PlugradError, RuntimeError\)",
        r"register_kernel\(.*",
        r"float32: DType",
        r"hook plugrad_register_kernels\(.*",
        r"entry points plugrad\.backends",
        r"plugrad-backend\.toml: api",
    ):
        assert [x for x in lines if re.fullmatch(expected, x)], expected
    assert not [x for x in lines if " at 0x" in x]
