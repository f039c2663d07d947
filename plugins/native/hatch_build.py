"""Compile plugins/csrc into the package: a build hook of hatchling, and a program to do it by hand.

python hatch_build.py            compile for this platform if a source is newer than the extensions
python hatch_build.py platforms  list the platforms
python hatch_build.py sanitize   write a copy of the package that checks for undefined behaviour and stray addresses,
                                 and print the library to preload for it; "sanitize undefined" needs none
PLUGRAD_NATIVE_PLATFORM=win_amd64 python -m hatchling build -t wheel
                                 build the wheel for another platform
PLUGRAD_NATIVE_ABI=cp314t python -m hatchling build -t wheel
                                 build the wheel for a free-threaded interpreter, which is not this one

The sources are shared with plugrad-wasm; a source distribution holds a copy. Each variant, for processors of
a level, is an extension module with the same functions. The compiler is that of ziglang, for all platforms,
with the stable ABI of Python declared in ``extension/python.h``; so building needs neither a compiler nor
headers of the system. Free-threaded interpreters have an ABI for each version, and extensions of their own. The
functions that the package calls are listed in ``extension/exports.txt``; the compiler leaves out all others.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT_FOLDER = Path(__file__).parent
C_SOURCES_FOLDER = next(
    f / "csrc" for f in (PROJECT_FOLDER, PROJECT_FOLDER.parent) if (f / "csrc").is_dir()
)
"""The sources: a source distribution has a copy of the folder that two members of the repository share."""
EXTENSION_FOLDER = PROJECT_FOLDER / "extension"
EXPORTS_FILE = EXTENSION_FOLDER / "exports.txt"
PACKAGE_FOLDER = PROJECT_FOLDER / "src" / "plugrad_native"
KERNEL_SOURCES = (
    *("reduction", "half", "normalization", "pooling", "scan", "signal"),  # which take longest
    *("activation", "attention", "binary", "casts", "convolution", "depthwise", "direct"),
    *("factors", "fused", "heads", "indexing", "linalg", "lu", "moments", "movement"),
    *("optimizers", "random", "recurrent", "resize", "softmax", "sorting", "unary"),
)
WIDE_VECTOR_SOURCES = ("brain",)
"""Sources for variants with wide vectors alone: the package calls their functions in no other variant."""
WIDE_VECTOR_BYTES = 64
"""The minimum bytes of a vector with which a variant has these sources."""
COMPILER_OPTIONS = (
    *("-std=c23", "-O3", "-fwrapv", "-fno-math-errno", "-ffp-contract=off", "-fPIC", "-g0"),
    *("-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-Wall", "-Wextra"),
    *("-Werror", "-mllvm", "-unroll-runtime=false"),
)
"""Options of the compiler. With loops of unknown length unrolled, an extension is 34 KB larger, and not faster."""
SIZE_OPTIMIZED_SOURCES = (
    *("arrays", "extension", "nodes", "sharing", "small_concatenations", "small_results"),
    "factors",
)
"""Sources that are compiled for size: those of the extension that prepare calls, and one that is written in vectors."""
NOT_UNROLLED_SOURCES = (
    *("attention", "casts", "heads", "indexing", "moments", "movement", "random", "recurrent"),
    "resize",
)
"""Sources whose loops gain nothing from being unrolled or interleaved."""
NO_UNWIND_TABLES_OPTIONS = ("-fno-unwind-tables", "-fno-asynchronous-unwind-tables")
"""Options without which an extension is 40 KB larger. Debuggers follow the pointers to frames, but on Windows."""
LINKER_OPTIONS = ("-shared", "-O2")
"""Options of the linker. Without -O2, zig compiles its checks for undefined behaviour, to be linked."""

SANITIZER_OPTIONS = {
    "undefined": (
        *("-fsanitize=undefined", "-fsanitize-trap=undefined", "-fno-sanitize=function"),
        "-Wno-pass-failed",
    ),
    "address": ("-fsanitize=address", "-fno-omit-frame-pointer"),
}
"""Options with which undefined behaviour, and reading or writing beyond an array, end the process.

Table entries call kernels by one type of pointers. Loops with checks are not vectorized. The checks of addresses
need the runtime of AddressSanitizer, which zig does not have.
"""
ADDRESS_SANITIZER_GLOBS = (
    "/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-{machine}.so",  # Debian, Ubuntu
    "/usr/lib*/clang/*/lib/linux/libclang_rt.asan-{machine}.so",  # others
    "/usr/lib*/clang/*/lib/{machine}-*-linux-gnu/libclang_rt.asan.so",
)
"""The patterns of paths at which clang has the runtime of AddressSanitizer."""


class Variant(NamedTuple):
    """What a variant is compiled for: a processor of LLVM, the bytes of its vectors, and more options.

    Sources of kernels that the variant has compiled for size come last.
    """

    processor: str
    vector_bytes: int
    options: tuple[str, ...] = ()
    size_optimized_sources: tuple[str, ...] = ()


X86_64_VARIANTS = {
    # For processors without AVX2, few of which are younger than ten years. Without any unrolling, it has 0.7 of
    # the size, and takes 1.05 times as long in the geometric mean, at most 2.2 times (the greatest of uint8).
    # Few run it; so what is neither a product, nor a reduction, nor an elementwise loop is compiled for size.
    "v2": Variant(
        "x86_64_v2",
        16,
        ("-fno-unroll-loops",),
        (
            *("attention", "half", "heads", "image", "indexing", "linalg", "lu", "moments"),
            *("morphology", "movement", "normalization", "optimizers", "pooling", "random"),
            *("recurrent", "resize", "scan", "signal", "softmax", "sorting"),
        ),
    ),
    "v3": Variant("x86_64_v3", 32),
    # By itself, clang takes vectors of 256 bits, with which ten elementwise ops in the cache take 1.7 times as long.
    "v4": Variant("x86_64_v4", 64, ("-mprefer-vector-width=512",)),
}
AARCH64_VARIANTS = {"neon": Variant("baseline", 16)}
"""The first variant of an architecture runs on all its processors, but for x86-64 before 2009."""


class Platform(NamedTuple):
    """A target of the compiler, and the variants for it."""

    target: str
    variants: dict[str, Variant]


PLATFORMS = {
    "manylinux_2_17_x86_64": Platform("x86_64-linux-gnu.2.17", X86_64_VARIANTS),
    "manylinux_2_17_aarch64": Platform("aarch64-linux-gnu.2.17", AARCH64_VARIANTS),
    "musllinux_1_2_x86_64": Platform("x86_64-linux-musl", X86_64_VARIANTS),
    "musllinux_1_2_aarch64": Platform("aarch64-linux-musl", AARCH64_VARIANTS),
    "macosx_11_0_x86_64": Platform("x86_64-macos.11.0", X86_64_VARIANTS),
    "macosx_11_0_arm64": Platform("aarch64-macos.11.0", AARCH64_VARIANTS),
    "win_amd64": Platform("x86_64-windows-gnu", X86_64_VARIANTS),
}
"""The platforms by the tag of their wheels."""


KERNEL_DECLARATION_REGEX = re.compile(r'visibility\("hidden"\)\)\) (\w+) (\w+)\(([^)]*)\)')
ARGUMENT_KINDS = {
    "int": "i",
    "int32_t": "i",
    "uint64_t": "b",
    "int64_t": "b",
    "float": "f",
    "double": "f",
}
"""By C type: the letter of the kind of argument in extension/table.h; others are narrow integers."""
POINTER_KINDS = {
    "const void *": "r",
    "void *": "w",
    "const void *const *": "R",
    "void *const *": "W",
}
"""By C type: the letter of the kind of pointer in extension/table.h."""
STRIDED_ARRAY_TYPE = "const strided *"
"""The C type of arrays whose elements need not be adjacent."""
DESCRIPTOR_PARAMETER = "const int *descriptor"
"""The declaration of a descriptor, which begins with a number of axes."""
ITEM_BYTES_BY_C_TYPE = {
    **{f"{sign}int{8 * size}_t": size for sign in ("", "u") for size in (1, 2, 4, 8)},
    "boolean": 1,
    "half": 2,
    "float": 4,
    "double": 8,
    "complex64": 8,
    "complex128": 16,
}
"""The bytes of an item by its type in C."""
ARRAY_SIZE_FACTORS = {
    ("count",): dict.fromkeys(
        ("x", "values", "left", "right", "condition", "yes", "no", "out", "target"), ("count",)
    ),
    ("rows", "count"): dict.fromkeys(("x", "out"), ("rows", "count")),
    ("outer", "length", "inner"): dict.fromkeys(("x", "out"), ("outer", "length", "inner")),
    ("outer", "reduced", "inner"): {"x": ("outer", "reduced", "inner"), "out": ("outer", "inner")},
}
"""How many items the arrays of a kernel have, by the first numbers that it takes: the product of some of them."""
PYTHON_SYMBOL_REGEX = re.compile(r"FROM_PYTHON .*?(\w+)(?:, \*(\w+))?(?:, \*(\w+))?(?:\(.*\))?;")
PYTHON_VARIABLE_PREFIXES = ("_Py_NoneStruct", "PyExc_")


def find_target_platform(*, use_environment: bool = True) -> str | None:
    """Return the tag of the platform to build for: this one, or the one in the environment; None without code."""
    asked = os.environ.get("PLUGRAD_NATIVE_PLATFORM")
    if asked and use_environment:
        return asked
    if sys.implementation.name != "cpython":
        return None  # which has no such ABI
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        machine := platform.machine().lower(), machine
    )
    if sys.platform == "linux":
        libc = "manylinux_2_17" if platform.libc_ver()[0] == "glibc" else "musllinux_1_2"
        name = f"{libc}_{machine}"
    elif sys.platform == "darwin":
        name = f"macosx_11_0_{machine.replace('aarch64', 'arm64')}"
    else:
        name = f"win_{machine.replace('x86_64', 'amd64')}"
    return name if name in PLATFORMS else None


def get_interpreter_abi() -> str:
    """Return the ABI of this interpreter: the stable ABI, or the ABI of its version if it is free-threaded."""
    is_free = sysconfig.get_config_var("Py_GIL_DISABLED")
    return "cp{}{}t".format(*sys.version_info) if is_free else "abi3"


def get_target_abi() -> str:
    """Return the ABI to build for: the ABI of this interpreter, or the one in the environment, such as ``cp314t``."""
    return os.environ.get("PLUGRAD_NATIVE_ABI") or get_interpreter_abi()


def get_extension_suffix(platform_tag: str, abi: str) -> str:
    """Return the suffix of the file name of an extension module on a platform."""
    if abi == "abi3":
        return ".pyd" if platform_tag.startswith("win") else ".abi3.so"
    if platform_tag.startswith("win"):
        return f".{abi}-{platform_tag}.pyd"
    version = abi.removeprefix("cp")
    if platform_tag.startswith("macosx"):
        return f".cpython-{version}-darwin.so"
    libc = "gnu" if platform_tag.startswith("manylinux") else "musl"
    return f".cpython-{version}-{platform_tag.split('_', 3)[3]}-linux-{libc}.so"


def get_extension_path(platform_tag: str, variant: str) -> Path:
    """Return the path of the extension module of a variant: in the package, or elsewhere for another interpreter."""
    abi = get_target_abi()
    own = find_target_platform(use_environment=False), get_interpreter_abi()
    folder = (
        PACKAGE_FOLDER
        if (platform_tag, abi) == own
        else PROJECT_FOLDER / "build" / f"{platform_tag}-{abi}"
    )
    return folder / f"_{variant}{get_extension_suffix(platform_tag, abi)}"


def is_extension_stale(platform_tag: str) -> bool:
    """Return whether an extension is missing or older than a source."""
    variants = PLATFORMS[platform_tag].variants
    built = [get_extension_path(platform_tag, variant) for variant in variants]
    if not all(path.exists() for path in built):
        return True
    sources = (*C_SOURCES_FOLDER.iterdir(), *EXTENSION_FOLDER.iterdir(), Path(__file__))
    return min(p.stat().st_mtime for p in built) < max(p.stat().st_mtime for p in sources)


def compile_variants(
    platform_tag: str,
    extension_files: dict[str, Path],
    build_folder: Path,
    sanitizer_options: tuple[str, ...] = (),
) -> None:
    """Compile all sources for variants of a platform.

    Args:
        platform_tag: a key of `PLATFORMS`.
        extension_files: the file to write for each variant.
        build_folder: the folder for intermediate files and the caches of the compiler.
        sanitizer_options: further options of the compiler, such as those in `SANITIZER_OPTIONS`.

    Raises:
        subprocess.CalledProcessError: the compiler fails; it has printed why.
    """
    triple, variants = PLATFORMS[platform_tag]
    exported = EXPORTS_FILE.read_text("utf-8").split()
    listed = build_folder / f"{platform_tag}-exports.h"
    listed.write_text("".join(f"#define LISTED_{kernel} , LISTED\n" for kernel in exported))
    platform_flags = (
        *("-target", triple, "-include", str(listed)),
        *("-I", str(C_SOURCES_FOLDER), "-I", str(EXTENSION_FOLDER), "-I", str(build_folder)),
    )
    sources = [C_SOURCES_FOLDER / f"{stem}.c" for stem in (*KERNEL_SOURCES, *WIDE_VECTOR_SOURCES)]
    tables = {v: build_folder / f"{platform_tag}-{v}-table.c" for v in extension_files}

    def get_kernel_sources(variant: str) -> list[Path]:
        is_wide = variants[variant].vector_bytes >= WIDE_VECTOR_BYTES
        return [source for source in sources if is_wide or source.stem not in WIDE_VECTOR_SOURCES]

    def get_all_sources(variant: str) -> list[Path]:
        return [
            *get_kernel_sources(variant),
            tables[variant],
            *sorted(EXTENSION_FOLDER.glob("*.c")),
        ]

    def find_kernel_declarations(source: Path) -> list[tuple[str, str, str]]:
        """Return the result, name and parameters of each kernel of a source, for whatever it is compiled."""
        text = run_compiler(build_folder, *platform_flags, "-std=c23", "-E", "-P", str(source))
        return KERNEL_DECLARATION_REGEX.findall(text)

    def get_object_path(variant: str, source: Path) -> str:
        return str(build_folder / f"{platform_tag}-{variant}-{source.stem}.o")

    def compile_source(variant_and_source: tuple[str, Path]) -> None:
        """Compile a source for a variant, while other threads compile others."""
        variant, source = variant_and_source
        processor, vector_bytes, more, size_optimized = variants[variant]
        flags = (
            f"-mcpu={processor}",
            f"-DVECTOR_BYTES={vector_bytes}",
            *COMPILER_OPTIONS,
            *more,
            *sanitizer_options,
        )
        flags += () if "windows" in triple else NO_UNWIND_TABLES_OPTIONS
        flags += ("-fno-unroll-loops",) if source.stem in NOT_UNROLLED_SOURCES else ()
        flags += ("-Os",) if source.stem in (*SIZE_OPTIMIZED_SOURCES, *size_optimized) else ()
        flags += () if get_target_abi() == "abi3" else ("-DFREE_THREADED",)
        module = (f"-DMODULE_NAME=_{variant}", f'-DMODULE="_{variant}"')
        target = get_object_path(variant, source)
        run_compiler(
            build_folder, *platform_flags, *flags, *module, "-c", str(source), "-o", target
        )

    def link_extension(variant: str) -> None:
        # For a baseline, so that what zig compiles to be linked is compiled once.
        objects = [get_object_path(variant, part) for part in get_all_sources(variant)]
        run_compiler(
            build_folder, "-target", triple, *options, *objects, "-o", str(extension_files[variant])
        )

    options = [*LINKER_OPTIONS, "-s", "-Wl,--gc-sections"]
    if "macos" in triple:
        options = [*LINKER_OPTIONS, "-Wl,-undefined,dynamic_lookup", "-Wl,-dead_strip", "-Wl,-x"]
    elif "windows" in triple:
        options.append(make_import_library(triple, build_folder))
    else:
        options.append("-rtlib=none")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = dict(zip(sources, pool.map(find_kernel_declarations, sources), strict=True))
        known = {kernel[1] for found in kernels.values() for kernel in found}
        if missing := sorted(set(exported) - known):
            raise ValueError(f"{EXPORTS_FILE} lists functions that are in no source: {missing}")
        for variant, table in tables.items():
            own = {kernel[1]: kernel for s in get_kernel_sources(variant) for kernel in kernels[s]}
            table.write_text(generate_kernel_table([own[name] for name in exported if name in own]))
        list(
            pool.map(
                compile_source, [(v, part) for v in extension_files for part in get_all_sources(v)]
            )
        )
        list(pool.map(link_extension, extension_files))


def generate_kernel_table(kernels: list[tuple[str, str, str]]) -> str:
    """Return C that lists kernels for the extension, and passes arguments on to each.

    A pointer is passed on whatever it points to; so the types of structs need not be known here. A pointer to
    pointers stands for a list of arrays. There are no pointers in the lists: their relocations would make a wheel
    27 KB larger.
    """
    lines = ['#include "table.h"', '#include "common.h"', "", "typedef uint16_t half;", ""]
    entries: list[str] = []
    signatures: dict[tuple[str, ...], int] = {}
    cases: list[str] = []
    needs: dict[tuple[str, ...], int] = {}
    """Where those of kernels begin that need the same."""
    need_count = 0
    for result, name, parameters in kernels:
        types = [
            "const " * p.strip().startswith("const")
            + ("void *const *" if p.count("*") > 1 else "void *")
            if "*" in p
            else p.split()[0]
            for p in parameters.split(",")
        ]
        kinds = [
            "s"
            if p.strip().startswith(STRIDED_ARRAY_TYPE)
            else "d"
            if p.strip() == DESCRIPTOR_PARAMETER
            else POINTER_KINDS.get(t) or ARGUMENT_KINDS.get(t, "i")
            for p, t in zip(parameters.split(","), types, strict=True)
        ]
        key = (result, *types, "".join(kinds))
        if key not in signatures:
            field = {**dict.fromkeys(("s", "d", *POINTER_KINDS.values()), "pointer"), "f": "number"}
            values = [f"a[{i}].{field.get(kind, 'integer')}" for i, kind in enumerate(kinds)]
            call = f"(({result} (*)({', '.join(types)}))f)({', '.join(values)});"
            body = f"{call} return 0;" if result == "void" else f"return {call}"
            cases.append(f"    case {len(signatures)}: {body}")
            signatures[key] = len(signatures)
        needed = generate_array_needs(parameters)
        if needed not in needs:
            needs[needed] = need_count
            need_count += len(needed)
        entries.append(f'    {{"{name}", {signatures[key]}, {needs[needed]}}},')
    lines += [
        *("const kernel kernels[] = {", *entries, "    {},", "};"),
        *("", "const signature signatures[] = {"),
        *[
            f'    {{"{kinds}", {len(kinds)}, {int(result != "void")}}},'
            for result, *_, kinds in signatures
        ],
        *("};", "", "const need needs[] = {", *[f"    {n}," for each in needs for n in each], "};"),
        *("", *[f"void {name}(void);" for _, name, _ in kernels]),
        *("", "ADDRESSES(", *[f"    ADDRESS({name})" for _, name, _ in kernels], ")"),
        *("", "int64_t call_function(int signature, void *f, const value *a) {"),
        *("    switch (signature) {", *cases),
        *("    default: __builtin_unreachable();", "    }", "}", ""),
    ]
    return "\n".join(lines)


def generate_array_needs(parameters: str) -> tuple[str, ...]:
    """Return the array sizes that a kernel needs, as initializers in C of `need` in table.h."""
    declared = [re.findall(r"\w+|\*", p) for p in parameters.split(",")]
    places = {words[-1]: place for place, words in enumerate(declared, 1)}
    numbers = [words[-1] for words in declared if "*" not in words]
    known = next(
        (
            items
            for first, items in ARRAY_SIZE_FACTORS.items()
            if tuple(numbers[: len(first)]) == first
        ),
        {},
    )
    found: list[str] = []
    for words in declared:
        name, *_ = reversed(words)
        size = next(
            (ITEM_BYTES_BY_C_TYPE[word] for word in words if word in ITEM_BYTES_BY_C_TYPE), 0
        )
        if words.count("*") == 1 and name in known and size:
            factors = ", ".join(str(places[factor]) for factor in known[name])
            step = places.get(f"{name}_step", 0)
            found.append(f"{{{places[name]}, {size}, {step}, {{{factors}}}}}")
    return (*found, "{}")


def make_import_library(target_triple: str, build_folder: Path) -> str:
    """Return the path of a library that tells the linker for Windows which symbols the interpreter's DLL has."""
    names = [
        n
        for found in PYTHON_SYMBOL_REGEX.findall((EXTENSION_FOLDER / "python.h").read_text())
        for n in found
        if n
    ]
    exports = (f"{n} DATA" if n.startswith(PYTHON_VARIABLE_PREFIXES) else n for n in names)
    abi = get_target_abi()
    interpreter = "python3" if abi == "abi3" else f"python{abi.removeprefix('cp')}"
    definition, library = build_folder / f"{interpreter}.def", build_folder / f"{interpreter}.lib"
    definition.write_text("\n".join([f"LIBRARY {interpreter}.dll", "EXPORTS", *exports, ""]))
    machine = "i386:x86-64" if target_triple.startswith("x86_64") else "arm64"
    arguments = ("dlltool", "-m", machine, "-d", str(definition), "-l", str(library))
    subprocess.run([find_zig(), *arguments], check=True)
    return str(library)


def run_compiler(cache_folder: Path, *arguments: str) -> str:
    """Run zig's C compiler with its caches in a folder; return what it prints."""
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(cache_folder), "ZIG_LOCAL_CACHE_DIR": str(cache_folder)}
    command = [find_zig(), "cc", *arguments]
    done = subprocess.run(
        command,
        check=True,
        cwd=C_SOURCES_FOLDER,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | caches,
    )
    return done.stdout


def find_zig() -> str:
    """Return the path of zig; `python -m ziglang` would start Python a hundred times."""
    return str(files("ziglang") / "zig")


def compile_extensions(platform_tag: str) -> list[Path]:
    """Compile the variants for a platform into the package unless they are up to date; return the files."""
    targets = {
        variant: get_extension_path(platform_tag, variant)
        for variant in PLATFORMS[platform_tag].variants
    }
    if is_extension_stale(platform_tag):
        for target in targets.values():
            target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            compile_variants(platform_tag, targets, Path(folder))
    return list(targets.values())


def recompress_wheel(wheel: Path) -> None:
    """Compress the files of a wheel again by Zopfli, which searches longer for short encodings and saves 44 KB.

    There may be any number of blocks, each with a code of its own, which saves 5 KB of that.
    """
    import zopfli.zlib  # pyright: ignore[reportMissingTypeStubs]

    compress: Any = zopfli.zlib.compress  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    with ZipFile(wheel) as archive:
        files = [(info, archive.read(info)) for info in archive.infolist()]
    with ZipFile(wheel, "w") as archive:
        assert archive.fp
        for info, content in files:
            # A module cannot give the archive what is already compressed. So it stores that, and the header says
            # afterwards what it is.
            packed = compress(content, numiterations=5, blocksplittingmax=0)[2:-4]
            archive.writestr(info, packed, ZIP_STORED)
            info.compress_type, info.file_size = ZIP_DEFLATED, len(content)
            info.CRC = zlib.crc32(content)
            archive.fp.seek(info.header_offset)
            archive.fp.write(info.FileHeader())


def find_address_sanitizer() -> Path:
    """Return the runtime of AddressSanitizer, the latest that is installed."""
    machine = platform.machine()
    found = [
        Path(path)
        for pattern in ADDRESS_SANITIZER_GLOBS
        for path in glob(pattern.format(machine=machine))
    ]
    if not found:
        sys.exit(
            "sanitize: the runtime of AddressSanitizer is not installed. On Debian, run: "
            "apt-get install libclang-rt-14-dev. "
            "Or check for undefined behaviour only: make sanitize CHECKS=undefined"
        )
    return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))])


def write_sanitized_package(platform_tag: str, check_names: Iterable[str]) -> None:
    """Write a copy of the package with the named checks of `SANITIZER_OPTIONS` into ``build/.sanitized``."""
    folder = PROJECT_FOLDER / "build" / ".sanitized"
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / PACKAGE_FOLDER.name
    shutil.copytree(
        PACKAGE_FOLDER, copy, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    )
    targets = {
        v: copy / get_extension_path(platform_tag, v).name for v in PLATFORMS[platform_tag].variants
    }
    with tempfile.TemporaryDirectory() as caches:
        options = [option for check in check_names for option in SANITIZER_OPTIONS[check]]
        compile_variants(platform_tag, targets, Path(caches), tuple(options))


if __name__ == "__main__":
    if sys.argv[1:] == ["platforms"]:
        sys.stdout.write(" ".join(PLATFORMS) + "\n")
    elif sys.argv[1:2] == ["sanitize"]:
        name = find_target_platform() or sys.exit("there is no native code for this platform")
        wanted = sys.argv[2:] or list(SANITIZER_OPTIONS)
        if unknown := set(wanted) - SANITIZER_OPTIONS.keys():
            sys.exit(
                f"sanitize: there is no check {sorted(unknown)[0]!r}; there are {', '.join(SANITIZER_OPTIONS)}"
            )
        runtime = str(find_address_sanitizer()) if "address" in wanted else ""
        write_sanitized_package(name, wanted)
        sys.stdout.write(f"{runtime}\n")
    elif (name := find_target_platform()) is not None:
        compile_extensions(name)
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class CustomBuildHook(BuildHookInterface[Any]):
        """Compile before a wheel is built, also for editable installs; add the sources to a source distribution."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Write the extensions and name the wheel after the platform, or copy the sources.

            Where there is no code for a platform, the wheel holds none.
            """
            if self.target_name == "sdist":
                build_data["force_include"][str(C_SOURCES_FOLDER)] = C_SOURCES_FOLDER.name
                return
            name = find_target_platform()
            if name is None:
                return
            files = compile_extensions(name)
            build_data["force_include"] |= {
                str(file): f"plugrad_native/{file.name}" for file in files
            }
            build_data["pure_python"] = False
            abi = get_target_abi()
            build_data["tag"] = (
                f"{'cp311' if abi == 'abi3' else abi.removesuffix('t')}-{abi}-{name}"
            )

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            """Make a wheel smaller; one of an editable installation is not kept."""
            if self.target_name == "wheel" and version == "standard":
                recompress_wheel(Path(artifact_path))
