"""A second Vulkan driver: SwiftShader, which comes with Chromium and computes on the processor.

Its compiler, the order of its sums and its subgroups of four differ from lavapipe's.
"""

import os
import shutil
from pathlib import Path

SWIFTSHADER_NAME = "swiftshader"
DRIVER_FILE_NAME = "vk_swiftshader_icd.json"
BROWSER_FOLDERS = (
    "/usr/lib/chromium",
    "/usr/lib/chromium-browser",
    "/usr/lib64/chromium-browser",
    "/opt/google/chrome",
)
BROWSER_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOADER_VARIABLES = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES")
"""What tells the Vulkan loader which drivers there are; older ones know the second name."""


def find_swiftshader() -> str | None:
    """Return the path of SwiftShader's Vulkan driver file, or None."""
    programs = [Path(found).resolve() for name in BROWSER_COMMANDS if (found := shutil.which(name))]
    folders = [*map(Path, BROWSER_FOLDERS), *(program.parent for program in programs)]
    return next(
        (
            str(folder / DRIVER_FILE_NAME)
            for folder in folders
            if (folder / DRIVER_FILE_NAME).is_file()
        ),
        None,
    )


def use_driver(driver: str) -> None:
    """Restrict this process and its children to one Vulkan driver; no device may be open yet.

    Args:
        driver: ``"swiftshader"``, or the path of the JSON file that describes a driver.

    Raises:
        FileNotFoundError: there is no such file.
    """
    path = find_swiftshader() if driver == SWIFTSHADER_NAME else driver
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(
            f"no Vulkan driver {driver!r}; Debian's package chromium brings {SWIFTSHADER_NAME}"
        )
    os.environ.update(dict.fromkeys(LOADER_VARIABLES, path))
