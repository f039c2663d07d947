"""Compile csrc/ into the package: a build hook of hatchling, and a program to do it by hand.

python hatch_build.py            compile if a source is newer than the modules

Each variant of the instruction set becomes one file, with a module for each group of sources in a custom
section: a program compiles the modules that it uses. The compiler is that of ziglang. Its caches are
temporary, so that equal sources always give equal bytes and no other files remain.
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
TARGET = ("-target", "wasm32-wasi")  # for its libm; the modules import no function of the host
COMPILE = (
    *("-std=c23", "-O3", "-fwrapv", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"),
    # wasmtime does not unroll loops, and the arithmetic of their addresses takes longer than a vector.
    *("-mllvm", "-force-target-max-vector-interleave=4"),
)
OF_BOOLS = ("binary", "half", "unary")
"""Sources with loops whose results are bools, of which a vector has as many as it can."""
WHOLE_VECTORS = ("-mllvm", "-vectorizer-maximize-bandwidth")
PAGE = 1 << 16
STACK = 40 * PAGE  # the packed blocks of a product take 2.1 MB
LINK = (
    "-mexec-model=reactor",
    "-Wl,--strip-all",
    "-Wl,--import-memory",
    "-Wl,--max-memory=4294901760",
    f"-Wl,-z,stack-size={STACK}",
    "-Wl,--export=__stack_pointer",
)

# The modules, and their sources. They share one memory and one stack, and do not call each other: two
# modules in one store of wasmtime that import a shared memory make every trap end the process.
MODULES = {
    "binary": ("binary", "bitwise"),
    "unary": ("unary", "casts"),
    "activation": ("activation", "fused", "optimizers"),
    "movement": ("movement", "indexing", "sorting"),
    "reduction": ("reduction", "scan", "complex"),
    "normalization": ("normalization",),
    "linalg": ("linalg", "attention", "convolution", "depthwise", "winograd", "products"),
    "image": ("image", "resize", "pooling", "morphology"),
    "signal": ("signal",),
    "half": ("half",),
}

NATIVE_ONLY = ("direct",)
"""The sources that only plugrad-native compiles."""

EXPORT_SECTION = 7

# The import of the memory, up to the byte that says that it has a maximum, or that it is shared.
# The linker makes a memory shared only if libm is compiled for threads, which that of zig is not; but
# libm has no state, and the kernels keep theirs on the stack.
IMPORTED = b"\x03env\x06memory\x02\x01"
SHARED = b"\x03env\x06memory\x02\x03"


def module_of(variant: str) -> Path:
    """Return the path of the file of a variant."""
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

    def compiled(source: Path) -> str:
        """Return the object of a source, which is compiled while other threads compile others."""
        target = str(folder / f"{variant}-{source.stem}.o")
        flags = COMPILE + (WHOLE_VECTORS if source.stem in OF_BOOLS else ())
        run_compiler(folder, VARIANTS[variant], *flags, "-c", str(source), "-o", target)
        return target

    sources = {s.stem: s for s in SOURCES.glob("*.c") if s.stem not in NATIVE_ONLY}
    grouped = [name for names in MODULES.values() for name in names]
    if sorted(grouped) != sorted(sources):
        raise ValueError(f"MODULES must name each source once; the sources are {sorted(sources)}")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = dict(zip(grouped, pool.map(compiled, map(sources.get, grouped)), strict=True))
    modules: dict[str, bytes] = {}
    lines: list[str] = []
    end = STACK
    for name, parts in MODULES.items():
        built = folder / f"{variant}-{name}.wasm"
        flags = (*LINK, f"-Wl,--global-base={end}")
        run_compiler(folder, CPU, *flags, *(objects[part] for part in parts), "-o", str(built))
        code = built.read_bytes()
        if code.count(IMPORTED) != 1:
            raise RuntimeError(f"{name} does not import its memory as expected; see IMPORTED")
        end = PAGE * pages_of(code)
        modules[name] = code = code.replace(IMPORTED, SHARED)
        lines.append(" ".join((name, *exports_of(code))))
    index = {"pages": str(end // PAGE).encode(), "exports": "\n".join(lines).encode()}
    parts = [custom_section(name, content) for name, content in (index | modules).items()]
    target.write_bytes(b"\0asm\1\0\0\0" + b"".join(parts))


def custom_section(name: str, content: bytes) -> bytes:
    """Return a custom section (WebAssembly core specification, 5.5.3)."""
    content = encoded(len(name)) + name.encode() + content
    return b"\0" + encoded(len(content)) + content


def encoded(number: int) -> bytes:
    """Return an unsigned number in the LEB128 encoding."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + encoded(rest) if rest else bytes([low])


def decoded(code: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned number at a position, and the position behind it."""
    low, position = code[position], position + 1
    if low < 0x80:
        return low, position
    rest, position = decoded(code, position)
    return low & 0x7F | rest << 7, position


def pages_of(module: bytes) -> int:
    """Return the least size of the memory that a module imports, in pages of 64 KiB."""
    return decoded(module, module.index(IMPORTED) + len(IMPORTED))[0]


def exports_of(module: bytes) -> list[str]:
    """Return the names of the functions that a module exports (specification, 5.5.10)."""
    position = 8  # after the magic number and the version
    while module[position] != EXPORT_SECTION:
        size, position = decoded(module, position + 1)
        position += size
    _, position = decoded(module, position + 1)
    count, position = decoded(module, position)
    names: list[str] = []
    for _ in range(count):
        length, position = decoded(module, position)
        names.append(module[position : position + length].decode())
        position = decoded(module, position + length + 1)[1]
    return [name for name in names if not name.startswith("_")]


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
