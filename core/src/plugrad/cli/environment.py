"""The environment in which plugins run: versions, files and variables."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from plugrad.discovery.listing import plugins
from plugrad.discovery.manifest import API_VERSION
from plugrad.settings.layers import config


def describe_environment() -> dict[str, Any]:
    """Return the versions, the platform, and the files and variables from which the settings are read."""
    return {
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "executable": sys.executable,
        "platform": platform.platform(),
        "plugrad": installed_version("plugrad-core"),
        "plugin_api": ".".join(map(str, API_VERSION)),
        "numpy": installed_version("numpy"),
        "plugins": {p.distribution: p.version for p in plugins() if p.version},
        "config_files": [path for path, _ in config.files()],
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith("PLUGRAD_")},
    }


def installed_version(distribution: str) -> str:
    """Return the version of a distribution, or ``"not installed"``."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def find_homepage(distribution: str) -> str:
    """Return the URL in a distribution's metadata at which its authors can be reached, or ``""``."""
    from importlib.metadata import metadata

    try:
        found = metadata(distribution)
    except PackageNotFoundError:
        return ""
    labelled = [line.partition(", ") for line in found.get_all("Project-URL") or ()]
    labelled += [("homepage", "", url) for url in found.get_all("Home-page") or ()]
    for wanted in ("issues", "tracker", "repository", "source", "homepage", ""):
        for label, _, url in labelled:
            if wanted in label.lower():
                return url
    return ""
