"""A second Vulkan driver: SwiftShader, which comes with Chromium and computes on the processor.

Its compiler, the order of its sums and its subgroups of four differ from lavapipe's.
"""

import os
import shutil
from pathlib import Path

NAME = "swiftshader"
FILE = "vk_swiftshader_icd.json"
FOLDERS = (
    "/usr/lib/chromium",
    "/usr/lib/chromium-browser",
    "/usr/lib64/chromium-browser",
    "/opt/google/chrome",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOADER_SETTINGS = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""What tells the Vulkan loader which drivers there are; older ones know the second name."""


def find() -> str | None:
    """Return the path of SwiftShader's description, or None."""
    programs = [Path(found).resolve() for name in BROWSERS if (found := shutil.which(name))]
    folders = [*map(Path, FOLDERS), *(program.parent for program in programs)]
    return next((str(folder / FILE) for folder in folders if (folder / FILE).is_file()), None)


def use(driver: str) -> None:
    """Make this process, and those that it starts, see one Vulkan driver; no device may be open yet.

    Args:
        driver: ``"swiftshader"``, or the path of the JSON file that describes a driver.

    Raises:
        FileNotFoundError: there is no such file.
    """
    path = find() if driver == NAME else driver
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(
            f"no Vulkan driver {driver!r}; Debian's package chromium brings {NAME}"
        )
    os.environ.update(dict.fromkeys(LOADER_SETTINGS, path))
