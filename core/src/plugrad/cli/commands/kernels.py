"""``plugrad kernels``: which backend implements which kernel, and the contract of one."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plugrad.cli import jobs, layout
from plugrad.cli.jobs import Job
from plugrad.cli.records import select_plugins
from plugrad.errors import PluginUnavailable, suggest_similar_name

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from plugrad.cli.jobs import Outcome
    from plugrad.discovery.plugin import Plugin

KernelsByBackend = dict[str, dict[str, str]]
"""How a kernel is implemented, by backend and kernel.

It is ``"own"``, ``"host"`` for one in NumPy, ``"declared"`` if only the manifest names it, or ``"composite"`` if the
backend has none and runs the kernel's body of ops.
"""

_EMPTY_CONTRACT_RECORD: Final[dict[str, Any]] = {
    "family": "",
    "inputs": [],
    "attributes": [],
    "composite": False,
    "batching": "loop",
    "contract": "",
}
"""The record of a contract that core does not declare, for a kernel of a plugin that was not loaded."""

PacksByBackend = dict[str, dict[str, list[str]]]
"""By backend and kernel: the plugins that bring an implementation, the one in effect at the front."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``plugrad kernels`` to its parser."""
    parser.add_argument(
        "pattern",
        metavar="PATTERN",
        nargs="?",
        default="*",
        help="a kernel, whose contract is printed; a family, a part of a name, or a pattern such as 'Conv*'",
    )
    parser.add_argument(
        "--backend", action="append", default=[], metavar="NAME", help="show only this backend"
    )
    parser.add_argument("--matrix", action="store_true", help="print a column for each backend")
    parser.add_argument(
        "--batching", action="store_true", help="print how plugrad.vmap runs each kernel"
    )
    jobs.add_timeout_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


class KernelReport(NamedTuple):
    """The contracts of all kernels, and what each backend has of them."""

    contracts: dict[str, dict[str, Any]]
    """By kernel: the record of its contract."""
    implementations: KernelsByBackend
    """By backend and kernel: how it is implemented."""
    packs: PacksByBackend
    """By backend and kernel: the plugins that bring an implementation."""
    reasons: dict[str, str]
    """By backend: why it could not be loaded; its kernels are those in the manifest."""

    def names(self) -> list[str]:
        """Return all kernels: those with a contract, and then those that only backends know."""
        implemented = {name for table in self.implementations.values() for name in table}
        return [*self.contracts, *sorted(implemented - {*self.contracts})]

    def describe(self, kernel_name: str) -> dict[str, Any]:
        """Return the record of a kernel, for JSON."""
        return {
            **self.contracts.get(kernel_name, _EMPTY_CONTRACT_RECORD),
            "backends": _select_by_kernel(self.implementations, kernel_name),
            "packs": _select_by_kernel(self.packs, kernel_name),
        }


def run(arguments: Namespace) -> None:
    """Load each backend in a separate process, and print which kernels it implements."""
    report = _load_backends(arguments.backend, arguments.timeout)
    names = [
        name
        for name in report.names()
        if _matches_kernel(arguments.pattern, name, report.contracts)
        and (not arguments.backend or any(name in t for t in report.implementations.values()))
    ]
    if arguments.json:
        kernels = {name: report.describe(name) for name in names}
        layout.print_json({"kernels": kernels, "without": report.reasons})
        return
    contracts = report.contracts
    if not names:
        families = {contract["family"] for contract in contracts.values()}
        hint = suggest_similar_name(arguments.pattern, [*report.names(), *families])
        layout.print_line(f"No kernel matches {arguments.pattern!r}{hint}.")
    elif arguments.batching:
        _print_batching_rules([name for name in names if name in contracts], contracts)
    elif arguments.matrix:
        _print_support_matrix(names, contracts, report.implementations)
    else:
        if arguments.pattern in contracts:
            layout.print_verbatim(contracts[arguments.pattern]["contract"], indent="")
            layout.print_line()
        _print_kernel_list(names, contracts, report.implementations, report.packs)
    if report.reasons:
        layout.print_line()
        layout.print_line("Not loaded; any kernels shown are those in the manifest:")
        layout.print_pairs(report.reasons.items())


def _load_backends(backend_names: list[str], timeout: float) -> KernelReport:
    """Load the backends of these names, or all, each in a separate process, and return their kernels.

    Raises:
        PluginUnavailable: the contracts of core cannot be read.
    """
    backends = [
        b
        for b in select_plugins(backend_names, "backend")
        if b.status in ("available", "active", "conflict")
    ]
    loading = [
        Job("try_backend", {"plugin_name": b.qualified_name, "last_step": "open"}) for b in backends
    ]
    first, *outcomes = jobs.run_jobs([Job("report_contracts", {}), *loading], timeout)
    if first.problem:
        raise PluginUnavailable(f"plugrad itself {first.problem}; run `plugrad doctor` for details")
    contracts: dict[str, dict[str, Any]] = first.report["contracts"]
    for outcome in outcomes:  # the contracts of packs
        contracts |= outcome.report.get("contracts", {})
    implementations, reasons = _find_implementations(backends, outcomes)
    composites = [name for name, contract in contracts.items() if contract["composite"]]
    for backend, table in implementations.items():
        if backend not in reasons:
            implementations[backend] = dict.fromkeys(composites, "composite") | table
    return KernelReport(contracts, implementations, _find_packs(backends, outcomes), reasons)


def _select_by_kernel(tables: Mapping[str, Mapping[str, Any]], kernel_name: str) -> dict[str, Any]:
    """Return by backend the entry of a kernel in the backend's table; backends without one are left out."""
    return {b: table[kernel_name] for b, table in tables.items() if kernel_name in table}


def _matches_kernel(pattern: str, kernel_name: str, contracts: dict[str, dict[str, Any]]) -> bool:
    """Return whether a pattern matches a kernel: its name, a part of it, or its family."""
    if pattern in contracts:
        return kernel_name == pattern
    if not set(pattern) & set("*?["):
        if any(contract["family"] == pattern for contract in contracts.values()):
            return kernel_name in contracts and contracts[kernel_name]["family"] == pattern
        pattern = f"*{pattern}*"
    return fnmatchcase(kernel_name.lower(), pattern.lower())


def _find_implementations(
    backends: list[Plugin], outcomes: list[Outcome]
) -> tuple[KernelsByBackend, dict[str, str]]:
    """Return the kernels of each backend, and the reasons why some backends could not be loaded."""
    implementations: KernelsByBackend = {}
    reasons: dict[str, str] = {}
    for backend, outcome in zip(backends, outcomes, strict=True):
        name = _backend_label(backend)
        implementations[name] = outcome.report.get("kernels") or dict.fromkeys(
            backend.manifest.kernels or (), "declared"
        )
        if outcome.problem or not outcome.report["can_start"]:
            reasons[name] = outcome.problem or outcome.report["refusal"]
            if not implementations[name]:
                del implementations[name]
    return implementations, reasons


def _find_packs(backends: list[Plugin], outcomes: list[Outcome]) -> PacksByBackend:
    """Return the plugins that bring kernels for each backend."""
    found: PacksByBackend = {}
    for backend, outcome in zip(backends, outcomes, strict=True):
        table = found.setdefault(_backend_label(backend), {})
        for owner, names in outcome.report.get("kernels_of_packs", {}).items():
            for name in names:
                table.setdefault(name, []).append(owner)
    return found


def _backend_label(backend: Plugin) -> str:
    """Return a backend's name, or its qualified name if two plugins have the same."""
    return backend.name if backend.status != "conflict" else backend.qualified_name


def _print_kernel_list(
    kernel_names: list[str],
    contracts: dict[str, dict[str, Any]],
    implementations: KernelsByBackend,
    packs: PacksByBackend,
) -> None:
    """Print a table of kernels with the backends and packs that implement each."""

    def format_backend(backend: str, kernel: str) -> str:
        owners = packs[backend].get(kernel, ())
        kernel_names = [owner.rpartition("::")[2].rpartition(".")[2] for owner in owners]
        if implementations[backend][kernel] == "composite":
            kernel_names.append("composite")
        return f"{backend} ({', '.join(kernel_names)})" if kernel_names else backend

    rows = [
        (
            name,
            contracts[name]["family"] if name in contracts else "–",
            _format_signature(contracts[name]) if name in contracts else "–",
            " ".join(
                format_backend(backend, name)
                for backend, table in implementations.items()
                if name in table
            )
            or "–",
        )
        for name in kernel_names
    ]
    layout.print_table(("KERNEL", "FAMILY", "TAKES", "BACKENDS"), rows, indent="")


def _format_signature(contract: dict[str, Any]) -> str:
    """Return the inputs and attributes of a contract as text."""
    attributes = ", ".join(contract["attributes"])
    return ", ".join(contract["inputs"]) + (f"; {attributes}" if attributes else "")


def _print_batching_rules(kernel_names: list[str], contracts: dict[str, dict[str, Any]]) -> None:
    """Print how `plugrad.vmap` runs each kernel."""
    rows = [(name, contracts[name]["family"], contracts[name]["batching"]) for name in kernel_names]
    layout.print_table(("KERNEL", "FAMILY", "UNDER VMAP"), rows, indent="")
    loops = sum(how.startswith("loop") for _, _, how in rows)
    layout.print_line()
    layout.print_line(
        f"{layout.format_count(len(kernel_names), 'kernel')}, of which {loops or 'none'} "
        f"{'run' if loops > 1 else 'runs'} once for each example. 'aligned' needs no rule, 'shared' has no inputs."
    )


def _print_support_matrix(
    kernel_names: list[str], contracts: dict[str, dict[str, Any]], implementations: KernelsByBackend
) -> None:
    """Print a table with a row for each kernel and a column for each backend."""
    labels = {"own": "yes", "host": "host", "declared": "yes", "composite": "composite"}
    rows = [
        (
            name,
            contracts[name]["family"] if name in contracts else "–",
            *(labels[table[name]] if name in table else "–" for table in implementations.values()),
        )
        for name in kernel_names
    ]
    layout.print_table(("KERNEL", "FAMILY", *implementations), rows, indent="")
    totals = ", ".join(
        f"{backend} {sum(name in table for name in kernel_names)}"
        for backend, table in implementations.items()
    )
    layout.print_line()
    is_any_on_host = any(row.count("host") for row in rows)
    explained = (
        " 'host' runs in NumPy, with the code that all backends share." if is_any_on_host else ""
    )
    if any(row.count("composite") for row in rows):
        explained += " 'composite' runs the kernel's body of ops on the device."
    layout.print_line(f"{layout.format_count(len(kernel_names), 'kernel')}: {totals}.{explained}")
