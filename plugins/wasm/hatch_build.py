"""Compile plugins/csrc into the package: a build hook of hatchling, and a program to do it by hand.

python hatch_build.py            compile if a source is newer than the modules

The file that it writes has a module for each group of sources in a custom section: a program compiles the
modules that it uses. The compiler is that of ziglang. Its caches are
temporary, so that equal sources always give equal bytes and no other files remain.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

PLUGIN_DIR = Path(__file__).parent
C_SOURCES_DIR = (
    PLUGIN_DIR / "csrc" if (PLUGIN_DIR / "csrc").is_dir() else PLUGIN_DIR.parent / "csrc"
)
"""The sources: a source distribution has a copy of the folder that two members of the repository share."""
PROGRAM_RUNNER_SOURCE = PLUGIN_DIR / "extension" / "program.c"
PACKAGE_DIR = PLUGIN_DIR / "src" / "plugrad_wasm"
KERNELS_WASM_FILE = PACKAGE_DIR / "kernels.wasm"
BASELINE_CPU = "generic+simd128+bulk_memory+nontrapping_fptoint"
"""The instruction set of functions that must round as the C standard says."""
RELAXED_SIMD_CPU = f"{BASELINE_CPU}+relaxed_simd"
"""The instruction set of the kernels, which wasmtime has on every processor.

A processor that does not fuse a product and a sum computes them one after the other.
"""
TARGET_FLAGS = ("-target", "wasm32-wasi")
"""Options for the target, which is chosen for its headers: the modules import no function of the host."""
COMPILE_FLAGS = (
    *("-std=c23", "-O3", "-fwrapv", "-fno-math-errno", "-g0", "-Wall", "-Wextra", "-Werror"),
    # wasmtime does not unroll loops, and the arithmetic of their addresses takes longer than a vector.
    *("-mllvm", "-force-target-max-vector-interleave=4"),
)
BOOL_RESULT_SOURCES = ("binary", "half", "unary")
"""Sources with loops whose results are bools, for which vectors should be as wide as possible."""
MAXIMIZE_BANDWIDTH_FLAGS = ("-mllvm", "-vectorizer-maximize-bandwidth")
STRENGTH_REDUCED_SOURCES = ("movement", "pooling", "scan")
"""Sources with loops that gain when LLVM reduces their addresses to sums.

Elsewhere, this costs an instruction for each access, because the constant part is no longer in the instruction that
reads or writes.
"""
NO_STRENGTH_REDUCTION_FLAGS = ("-mllvm", "-disable-lsr")
PAGE_BYTES = 1 << 16
STACK_BYTES = 40 * PAGE_BYTES
"""The stack of the modules: the packed blocks of a product take 2.1 MB."""
LINK_FLAGS = (
    *("-nostdlib", "-Wl,--no-entry"),
    "-Wl,--strip-all",
    "-Wl,--import-memory",
    "-Wl,--max-memory=4294901760",
    f"-Wl,-z,stack-size={STACK_BYTES}",
    "-Wl,--export=__stack_pointer",
)

MODULE_SOURCES = {
    "elementwise": (
        *("activation", "binary", "bitwise", "casts", "fused", "movement", "optimizers", "unary"),
    ),
    "indexing": ("indexing", "random", "sorting"),
    "reduction": ("reduction", "moments", "scan", "complex"),
    "normalization": ("normalization", "softmax"),
    "linalg": (
        "linalg",
        "attention",
        "convolution",
        "depthwise",
        "products",
        "winograd",
        "winograd_filters",
    ),
    "image": ("image", "resize", "pooling", "morphology"),
    "signal": ("signal",),
    "half": ("half",),
}
"""By module: its sources.

The modules share one memory and one stack, and do not call each other: two modules in one store of wasmtime that import
a shared memory make every trap end the process. One module has all that a group of elementwise calls needs, so that a
program runs it block by block.
"""

LIBM_SOURCES = (
    *("__expo2", "acosh", "asinh", "atan2", "atanh", "expm1", "nextafter", "nextafterf", "sinh"),
    *("exp_data", "exp2f_data", "pow", "pow_data", "powf", "powf_data"),
    *("__math_divzero", "__math_invalid", "__math_oflow", "__math_uflow", "__math_xflow"),
    *("__math_divzerof", "__math_invalidf", "__math_oflowf", "__math_uflowf", "__math_xflowf"),
)
"""The sources of musl's libm, which zig brings, with functions that the kernels need.

Others are in csrc/libm.zig, and in the library that zig adds to what it compiles. All of libc would
take longer to compile than the kernels.
"""
COMPLEX_LIBM_SOURCES = ("__cexp", "carg", "ccosh", "cexp", "csinh", "csqrt", "ctanh")

NATIVE_ONLY_SOURCES = ("brain", "direct", "factors", "heads", "lu", "recurrent")
"""The sources that only plugrad-native compiles."""

TYPE_SECTION_ID, FUNCTION_SECTION_ID, EXPORT_SECTION_ID = 1, 3, 7
VALUE_TYPE_LETTERS = {0x7F: "i", 0x7E: "l", 0x7D: "f", 0x7C: "d", 0x7B: "v"}
"""By code of a value type (specification, 5.3.1): its letter."""
C_TYPE_BY_LETTER = {"i": "int32_t", "l": "int64_t", "f": "float", "d": "double"}
C_CONVERSION_BY_LETTER = {
    "i": "(int32_t)a[{}]",
    "l": "a[{}]",
    "f": "as_float(a[{}])",
    "d": "as_double(a[{}])",
}
"""By type letter: the C expression in extension/program.c that makes an argument from the number of an operand."""

UNSHARED_MEMORY_IMPORT = b"\x03env\x06memory\x02\x01"
"""The import of a memory, up to the byte that says that it has a maximum.

The linker makes a memory shared only if all is compiled for threads; but libm has no state, and the kernels keep theirs
on the stack.
"""
SHARED_MEMORY_IMPORT = b"\x03env\x06memory\x02\x03"
"""The import of a memory, up to the byte that says that it has a maximum and is shared."""


def is_stale() -> bool:
    """Return whether the modules are missing or older than a source."""
    if not KERNELS_WASM_FILE.exists():
        return True
    newest = max(
        file.stat().st_mtime
        for file in (*C_SOURCES_DIR.iterdir(), PROGRAM_RUNNER_SOURCE, Path(__file__))
    )
    return KERNELS_WASM_FILE.stat().st_mtime < newest


def compile_sources(wasm_file: Path, build_folder: Path) -> None:
    """Compile all sources to modules in one file.

    Args:
        wasm_file: the file to write.
        build_folder: the folder for intermediate files and the caches of the compiler.

    Raises:
        subprocess.CalledProcessError: the compiler fails; it has printed why.
    """

    def get_object_path(source_stem: str) -> str:
        return str(build_folder / f"{source_stem}.o")

    def compile_source(source_stem: str) -> None:
        """Compile a source, while other threads compile others."""
        flags = COMPILE_FLAGS + (
            MAXIMIZE_BANDWIDTH_FLAGS if source_stem in BOOL_RESULT_SOURCES else ()
        )
        flags += () if source_stem in STRENGTH_REDUCED_SOURCES else NO_STRENGTH_REDUCTION_FLAGS
        arguments = (f"-mcpu={RELAXED_SIMD_CPU}", *flags, "-c", f"{source_stem}.c")
        run_zig(build_folder, "cc", *TARGET_FLAGS, *arguments, "-o", get_object_path(source_stem))

    grouped = [name for names in MODULE_SOURCES.values() for name in names]
    sources = {s.stem for s in C_SOURCES_DIR.glob("*.c")} - {*NATIVE_ONLY_SOURCES}
    if sorted(grouped) != sorted(sources):
        raise ValueError(
            f"MODULE_SOURCES must name each source once; the sources are {sorted(sources)}"
        )
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        libm = pool.submit(compile_libm, build_folder)  # first, because it takes longest
        list(pool.map(compile_source, grouped))
        library = libm.result()

        def link(module_name: str, data_address: int, *more_objects: str) -> bytes:
            """Link a module whose data begins at an address, and return it."""
            built = build_folder / f"{module_name}.wasm"
            objects = map(get_object_path, MODULE_SOURCES[module_name])
            flags = (
                *TARGET_FLAGS,
                f"-mcpu={BASELINE_CPU}",
                *LINK_FLAGS,
                f"-Wl,--global-base={data_address}",
            )
            run_zig(build_folder, "cc", *flags, *objects, *more_objects, library, "-o", str(built))
            return built.read_bytes()

        def compile_runner(module_name: str) -> dict[str, str]:
            """Compile the runner of programs for the functions of a module; return their signatures."""
            signatures = get_exported_function_signatures(link(module_name, STACK_BYTES))
            compile_program_runner(build_folder, module_name, signatures)
            return signatures

        functions = dict(zip(MODULE_SOURCES, pool.map(compile_runner, MODULE_SOURCES), strict=True))
    modules: dict[str, bytes] = {}
    end = STACK_BYTES
    for name in MODULE_SOURCES:
        code = link(name, end, get_program_runner_path(build_folder, name))
        if code.count(UNSHARED_MEMORY_IMPORT) != 1:
            raise RuntimeError(
                f"{name} does not import its memory as expected; see UNSHARED_MEMORY_IMPORT"
            )
        end = PAGE_BYTES * count_imported_memory_pages(code)
        modules[name] = code.replace(UNSHARED_MEMORY_IMPORT, SHARED_MEMORY_IMPORT)
    lines = [" ".join((name, *get_exported_function_names(code))) for name, code in modules.items()]
    tables = [
        " ".join((name, *(f"{function}:{types}" for function, types in found.items())))
        for name, found in functions.items()
    ]
    index = {
        "pages": str(end // PAGE_BYTES).encode(),
        "exports": "\n".join(lines).encode(),
        "functions": "\n".join(tables).encode(),
    }
    parts = [encode_custom_section(name, content) for name, content in (index | modules).items()]
    wasm_file.write_bytes(b"\0asm\1\0\0\0" + b"".join(parts))


def compile_libm(build_folder: Path) -> str:
    """Compile the functions of libm that the kernels need, and return the path of the library."""
    musl = Path(str(files("ziglang") / "lib" / "libc" / "musl"))
    sources = [musl / "src" / "math" / f"{stem}.c" for stem in LIBM_SOURCES]
    sources += [musl / "src" / "complex" / f"{stem}.c" for stem in COMPLEX_LIBM_SOURCES]
    headers = [f"-I{musl / part}" for part in ("src/internal", "arch/generic")]
    options = ("-cflags", "-std=gnu17", "-fno-trapping-math", "-w", "-Dhidden=", *headers, "--")
    library = build_folder / "libm.a"
    arguments = (
        "build-lib",
        *TARGET_FLAGS,
        f"-mcpu={BASELINE_CPU}",
        "-OReleaseFast",
        "-lc",
        "-fcompiler-rt",
    )
    run_zig(
        build_folder, *arguments, f"-femit-bin={library}", "libm.zig", *options, *map(str, sources)
    )
    return str(library)


def get_program_runner_path(build_folder: Path, module_name: str) -> str:
    """Return the path of the compiled runner of programs of a module."""
    return str(build_folder / f"program-{module_name}.o")


def compile_program_runner(
    build_folder: Path, module_name: str, signatures: dict[str, str]
) -> None:
    """Compile the runner of programs of a module, with a table of its functions in the order of `signatures`."""
    found = [*signatures.values()]
    declared = [
        f"X({', '.join([name, *(C_TYPE_BY_LETTER[letter] for letter in types)])})"
        for name, types in signatures.items()
    ]
    cases: list[str] = []
    for number, types in enumerate(dict.fromkeys(found)):
        parameters = ", ".join(C_TYPE_BY_LETTER[letter] for letter in types)
        arguments = ", ".join(
            C_CONVERSION_BY_LETTER[letter].format(i) for i, letter in enumerate(types)
        )
        first = found.index(types)
        call = f"((void (*)({parameters}))called)({arguments})"
        cases.append(f"X({number}, {len(types)}, {first}, {first + found.count(types)}, {call})")
    lines = (
        f"#define FUNCTIONS(X) {' '.join(declared)}",
        f"#define SIGNATURES(X) {' '.join(cases)}",
    )
    header = build_folder / f"program-{module_name}.h"
    header.write_text("\n".join((*lines, f'#define NAME "program_{module_name}"', "")))
    flags = (
        *TARGET_FLAGS,
        f"-mcpu={BASELINE_CPU}",
        *COMPILE_FLAGS,
        "-include",
        str(header),
        "-c",
        str(PROGRAM_RUNNER_SOURCE),
    )
    run_zig(build_folder, "cc", *flags, "-o", get_program_runner_path(build_folder, module_name))


def encode_custom_section(name: str, content: bytes) -> bytes:
    """Return a custom section (WebAssembly core specification, 5.5.3)."""
    content = encode_leb128(len(name)) + name.encode() + content
    return b"\0" + encode_leb128(len(content)) + content


def encode_leb128(number: int) -> bytes:
    """Return an unsigned number in the LEB128 encoding."""
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + encode_leb128(rest) if rest else bytes([low])


def decode_leb128(code: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned number in LEB128 encoding at a position, and the position after it."""
    low, position = code[position], position + 1
    if low < 0x80:
        return low, position
    rest, position = decode_leb128(code, position)
    return low & 0x7F | rest << 7, position


def count_imported_memory_pages(module: bytes) -> int:
    """Return the minimum size of the memory that a module imports, in pages of 64 KiB."""
    return decode_leb128(
        module, module.index(UNSHARED_MEMORY_IMPORT) + len(UNSHARED_MEMORY_IMPORT)
    )[0]


def find_section(module: bytes, section_id: int) -> tuple[int, int]:
    """Return the number of items of the section with an ID, and the position of the first one."""
    position = 8  # after the magic number and the version
    while module[position] != section_id:
        size, position = decode_leb128(module, position + 1)
        position += size
    return decode_leb128(module, decode_leb128(module, position + 1)[1])


def get_exported_function_indices(module: bytes) -> dict[str, int]:
    """Return by name the indices of the functions that a module exports (specification, 5.5.10)."""
    count, position = find_section(module, EXPORT_SECTION_ID)
    found: dict[str, int] = {}
    for _ in range(count):
        length, position = decode_leb128(module, position)
        name = module[position : position + length].decode()
        found[name], position = decode_leb128(module, position + length + 1)
    return {name: number for name, number in found.items() if not name.startswith("_")}


def get_exported_function_names(module: bytes) -> list[str]:
    """Return the names of the functions that a module exports."""
    return [*get_exported_function_indices(module)]


def get_exported_function_signatures(module: bytes) -> dict[str, str]:
    """Return by name the parameters' type letters of the exported functions without a result, ordered by these.

    The types and those of functions are sections 5.5.4 and 5.5.6 of the specification.
    """

    def read_type_letters(position: int) -> tuple[str, int]:
        count, position = decode_leb128(module, position)
        end = position + count
        return "".join(VALUE_TYPE_LETTERS[code] for code in module[position:end]), end

    count, position = find_section(module, TYPE_SECTION_ID)
    types: list[tuple[str, str]] = []
    for _ in range(count):
        parameters, position = read_type_letters(
            position + 1
        )  # after the byte that says that it is of functions
        results, position = read_type_letters(position)
        types.append((parameters, results))
    count, position = find_section(module, FUNCTION_SECTION_ID)
    functions: list[tuple[str, str]] = []
    for _ in range(count):
        number, position = decode_leb128(module, position)
        functions.append(types[number])
    found = {
        name: functions[number] for name, number in get_exported_function_indices(module).items()
    }
    called = {name: parameters for name, (parameters, results) in found.items() if not results}
    return dict(sorted(called.items(), key=lambda item: (item[1], item[0])))


def run_zig(cache_folder: Path, *arguments: str) -> None:
    """Run zig in the folder of the sources, with its caches in a folder.

    `python -m ziglang` would start Python before it, a hundred times.
    """
    subprocess.run(
        [str(files("ziglang") / "zig"), *arguments],
        check=True,
        cwd=C_SOURCES_DIR,
        env=dict(
            os.environ,
            ZIG_GLOBAL_CACHE_DIR=str(cache_folder),
            ZIG_LOCAL_CACHE_DIR=str(cache_folder),
        ),
    )


def compile_modules() -> None:
    """Compile all modules into the package unless they are up to date."""
    if is_stale():
        with tempfile.TemporaryDirectory() as folder:
            compile_sources(KERNELS_WASM_FILE, Path(folder))


if __name__ == "__main__":
    compile_modules()
else:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class CustomBuildHook(BuildHookInterface[Any]):
        """Compile before a wheel is built, also for editable installs; add the sources to a source distribution."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Write the modules, which ``artifacts`` in pyproject.toml includes in the wheel, or copy the sources."""
            if self.target_name == "sdist":
                build_data["force_include"][str(C_SOURCES_DIR)] = C_SOURCES_DIR.name
                return
            compile_modules()
            build_data["pure_python"] = True  # WebAssembly runs everywhere: py3-none-any
