"""No code swallows or replaces an interruption, such as an exception of a signal handler.

An exception of a handler appears anywhere, also in a block that expects failures of the system.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_FILES = [
    path.relative_to(ROOT)
    for source in ("core/src", *(p.relative_to(ROOT) for p in ROOT.glob("plugins/*/src")))
    for path in sorted((ROOT / source).rglob("*.py"))
]
BROAD_EXCEPTIONS = {
    "BaseException",
    "Exception",
    "OSError",
    "RuntimeError",
    "TimeoutError",
    "InterruptedError",
}
"""The classes of what handlers mostly raise, and those that these derive from."""
INTERRUPTION_CHECKS = {"is_interruption", "must_propagate"}
"""The functions that say whether an exception came from outside."""
RAISED_BY_WAITING_THREAD = "the thread that waits for the work raises it"
EXCUSES_BY_FILE = {
    "core/src/plugrad/cli/__init__.py": {"with suppress(OSError)": "the command ends"},
    "core/src/plugrad/cli/child.py": {"except BaseException": "the process reports it and ends"},
    "core/src/plugrad/ops/arrow.py": {"except BaseException": "it is what the caller in C raises"},
    "core/src/plugrad/tracing/replay.py": {"except BaseException": "explain_failure asks"},
    "plugins/cpu/src/plugrad_cpu/threads.py": {"except BaseException": RAISED_BY_WAITING_THREAD},
    "plugins/distributed/src/plugrad_distributed/startup.py": {
        "except Exception": "the end of the program, which is ended for all ranks"
    },
    "plugins/nn/src/plugrad_nn/prefetching.py": {"except BaseException": RAISED_BY_WAITING_THREAD},
    "plugins/wasm/src/plugrad_wasm/compile_server.py": {
        "with suppress(": "a process of its own, without plugrad"
    },
    "plugins/wasm/src/plugrad_wasm/stoppable.py": {
        "except BaseException": RAISED_BY_WAITING_THREAD
    },
    "plugins/wasm/src/plugrad_wasm/workers.py": {"except BaseException": RAISED_BY_WAITING_THREAD},
}
"""How lines begin that may catch anything, and why nothing is lost there."""


def exception_names(node):
    """Return the names in an ``except`` or in the arguments of ``suppress``."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node else {"BaseException"}


def propagates_interruptions(handler):
    """Whether an exception handler reraises interruptions such as KeyboardInterrupt."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return not any(isinstance(n, ast.Return) for s in handler.body for n in ast.walk(s))
    calls = [n.func for s in handler.body for n in ast.walk(s) if isinstance(n, ast.Call)]
    return any(isinstance(f, ast.Name) and f.id in INTERRUPTION_CHECKS for f in calls)


def iter_swallowing_lines(tree):
    """Yield the numbers of the lines that may swallow an interruption."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                if exception_names(
                    handler.type
                ) & BROAD_EXCEPTIONS and not propagates_interruptions(handler):
                    yield handler.lineno
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name | ast.Attribute)
            and getattr(node.func, "id", getattr(node.func, "attr", "")) == "suppress"
            and any(exception_names(a) & BROAD_EXCEPTIONS for a in node.args)
        ):
            yield node.lineno


def find_unexcused_lines(path):
    """Return the lines of a file that swallow interruptions without an excuse, and the excuses that match no line."""
    source = (ROOT / path).read_text("utf-8")
    if "except" not in source and "suppress" not in source:
        lines = []  # most files: to parse them all takes a second
    else:
        lines = [
            source.splitlines()[number - 1].strip()
            for number in iter_swallowing_lines(ast.parse(source))
        ]
    excuses = EXCUSES_BY_FILE.get(path.as_posix(), {})
    bare = [line for line in lines if not line.startswith((*excuses,))]
    return bare + [start for start in excuses if not any(line.startswith(start) for line in lines)]


def test_no_code_swallows_interruptions():
    assert {
        str(path): lines for path in SOURCE_FILES if (lines := find_unexcused_lines(path))
    } == {}


@pytest.mark.parametrize(
    "code",
    [
        "try: f()\nexcept OSError: pass",
        "try: f()\nexcept (ValueError, TimeoutError) as error: raise Other from error",
        "try: f()\nexcept: pass",
        "try: f()\nexcept Exception:\n    if g(): return\n    raise",
        "with contextlib.suppress(OSError): f()",
    ],
)
def test_code_that_swallows_interruptions_is_found(code):
    assert len([*iter_swallowing_lines(ast.parse(code))]) == 1


FILES_WITHOUT_HOLD_SAFELY = {
    "core/src/plugrad/discovery/load_locks.py": "a condition shares it",
    "plugins/nn/src/plugrad_nn/prefetching.py": "a condition shares it",
    "plugins/wasm/src/plugrad_wasm/forks.py": "forks take it without a block",
    "plugins/wasm/src/plugrad_wasm/stoppable.py": "one tells the end of work, and is held without a block",
}
"""Files whose locks have a name of their own beside what holds them, and why."""


def locks_without_hold_safely(path):
    """Return the lines of a file that create a lock, unless `hold_safely` acquires it."""
    source = (ROOT / path).read_text("utf-8")
    if "Lock" not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    held = [node for node in calls if getattr(node.func, "id", "") == "hold_safely"]
    safe = {id(argument) for node in held for argument in node.args}
    return [
        node.lineno
        for node in calls
        if getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Lock", "RLock")
        and id(node) not in safe
    ]


def test_no_interruption_leaves_a_lock_locked():
    found = {
        path.as_posix(): lines
        for path in SOURCE_FILES
        if (lines := locks_without_hold_safely(path))
    }
    assert {
        path: lines for path, lines in found.items() if path not in FILES_WITHOUT_HOLD_SAFELY
    } == {}
    assert found.keys() == FILES_WITHOUT_HOLD_SAFELY.keys(), "not needed"
