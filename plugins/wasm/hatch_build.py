"""Compile csrc/ into the package: a build hook of hatchling, and a program to do it by hand.

python hatch_build.py            compile if a source is newer than the modules

Each variant of the instruction set becomes one module. The compiler is that of ziglang. Its caches
are temporary, so that equal sources always give equal bytes and no other files remain.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
SOURCES = ROOT / "csrc"
PACKAGE = ROOT / "src" / "plugrad_wasm"
CPU = "generic+simd128+bulk_memory+nontrapping_fptoint"
VARIANTS = {"relaxed": f"{CPU}+relaxed_simd", "simd": CPU}
TARGET = ("-target", "wasm32-wasi")  # for its libm; the module still imports nothing
COMPILE = ("-std=c23", "-O3", "-fwrapv", "-fno-math-errno", "-Wall", "-Wextra", "-Werror")
LINK = (
    "-mexec-model=reactor",
    "-Wl,--strip-all",
    "-Wl,-z,stack-size=65536",
    "-Wl,--export=__stack_pointer",
    "-Wl,--export=__heap_base",
)


def module_of(variant: str) -> Path:
    """Return the path of the module of a variant."""
    return PACKAGE / f"kernels-{variant}.wasm"


def is_stale() -> bool:
    """Return whether a module is missing or older than a source."""
    modules = [module_of(variant) for variant in VARIANTS]
    if not all(module.exists() for module in modules):
        return True
    newest = max(file.stat().st_mtime for file in (*SOURCES.iterdir(), Path(__file__)))
    return min(module.stat().st_mtime for module in modules) < newest


def compile_variant(variant: str, target: Path, folder: Path) -> None:
    """Compile all sources for one instruction set into the file `target`.

    Args:
        variant: a key of `VARIANTS`.
        target: the file to write.
        folder: where intermediate files and the caches of the compiler go. Variants that share it
            compile libm only once, because libm is always built for the baseline.

    Raises:
        subprocess.CalledProcessError: the compiler fails; it has printed why.
    """
    generated = folder / f"microkernel-{variant}.s"
    generator = [sys.executable, str(SOURCES / "microkernel.py"), variant]
    generated.write_bytes(subprocess.run(generator, check=True, stdout=subprocess.PIPE).stdout)

    def compiled(source: Path) -> str:
        """Return the object of a source, which is compiled while other threads compile others."""
        target = str(folder / f"{variant}-{source.stem}.o")
        flags = COMPILE if source.suffix == ".c" else ()
        run_compiler(folder, VARIANTS[variant], *flags, "-c", str(source), "-o", target)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, (*sorted(SOURCES.glob("*.c")), generated)))
    built = folder / f"{variant}.wasm"
    run_compiler(folder, CPU, *LINK, *objects, "-o", str(built))
    target.write_bytes(built.read_bytes())


def run_compiler(folder: Path, cpu: str, *arguments: str) -> None:
    """Run the C compiler of zig in the folder of the sources, with its caches in `folder`."""
    subprocess.run(
        [sys.executable, "-m", "ziglang", "cc", *TARGET, f"-mcpu={cpu}", *arguments],
        check=True,
        cwd=SOURCES,
        env=dict(os.environ, ZIG_GLOBAL_CACHE_DIR=str(folder), ZIG_LOCAL_CACHE_DIR=str(folder)),
    )


def compile_modules() -> None:
    """Compile all variants into the package unless they are up to date."""
    if is_stale():
        with tempfile.TemporaryDirectory() as folder:
            for variant in VARIANTS:
                compile_variant(variant, module_of(variant), Path(folder))


if __name__ == "__main__":
    compile_modules()
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class CustomBuildHook(BuildHookInterface[Any]):
        """Compile before a wheel is built, also for editable installs."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Write the modules, which ``artifacts`` in pyproject.toml includes in the wheel."""
            compile_modules()
            build_data["pure_python"] = True  # WebAssembly runs everywhere: py3-none-any
