"""Run the conformance kit without a test module of one's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from plugrad.errors import BackendUnavailable
from plugrad.testing.xfail import XFAIL_FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

UNUSED_PYTEST_PLUGINS = "hypothesispytest", "anyio"
"""Plugins that would make a run longer: one imports Hypothesis at its end, and the other looks at each fixture."""


def run_conformance(
    backend: str,
    *,
    level: str | int = "batched",
    report: str | os.PathLike[str] | None = None,
    badge: str | os.PathLike[str] | None = None,
    xfail: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
) -> int:
    """Test backends with the conformance kit and return pytest's exit code: 0 if all that they claim works.

    Settings of pytest and conftest files of the folder at hand do not count.

    Args:
        backend: what to test, such as ``"acme"``, ``"acme:1"`` or ``"acme,other"``.
        level: how far to go: 1 to 9, or lifecycle, core, gradients, full, edges, reopening, devices, traced or
            batched; or float32, whether the backend is complete for programs in this dtype.
        report: where to write the results as JSON.
        badge: where to write an SVG badge.
        xfail: the file of the tests that must fail; by default plugrad-xfail.toml here, if there is one.
        arguments: more for pytest, such as ``["-x", "-k", "Conv2D"]``.

    Raises:
        BackendUnavailable: pytest is not installed.
    """
    try:
        import pytest
    except ImportError as error:
        raise BackendUnavailable(
            'the conformance kit needs pytest; install it with: pip install "plugrad-core[testing]"'
        ) from error
    if xfail is None and Path(XFAIL_FILE).exists():
        xfail = XFAIL_FILE
    suite = Path(__file__).with_name("suite.py")
    files = {"report": report, "badge": badge, "xfail": xfail}
    return int(
        pytest.main(
            [
                "-c",
                os.devnull,
                "--rootdir",
                str(suite.parent),
                "--noconftest",
                "-p",
                "plugrad.testing.plugin",
                "-p",
                "no:cacheprovider",
                *(f"-pno:{name}" for name in UNUSED_PYTEST_PLUGINS),
                f"--plugrad-backend={backend}",
                f"--plugrad-level={level}",
                *(f"--plugrad-{name}={path}" for name, path in files.items() if path is not None),
                *arguments,
                str(suite),
            ]
        )
    )
