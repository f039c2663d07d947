"""The jobs that run in a separate process: loading a plugin step by step, and testing it."""

from __future__ import annotations

import faulthandler
import json
import sys
import time
import traceback
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plugrad.errors import PluginUnavailable, PlugradError, describe_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from plugrad.discovery.plugin import Plugin
    from plugrad.tensor.backend import Backend

FAILED_CHECK_RESULTS: Final = ("differs", "fails")
"""The results of checks that are problems."""


class ReportFile:
    """The file that the parent process reads; each line is written immediately, because the process may die."""

    def __init__(self, path: str) -> None:
        """Open the file at `path`."""
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - until the process ends

    def add(self, **finding: object) -> None:
        """Write a finding, given as keyword arguments, as one line of JSON."""
        print(json.dumps(finding), file=self._file, flush=True)


def main(request: Mapping[str, Any]) -> None:
    """Run the job that the parent process's request, parsed JSON, describes; write the result to a file."""
    report = ReportFile(request["records"])
    _disable_core_dumps()
    faulthandler.enable()
    # If it hangs, this writes where, just before the parent process ends it.
    faulthandler.dump_traceback_later(max(0.1, request["deadline"] - time.time() - 0.5))
    try:
        JOB_FUNCTION_BY_NAME[request["job"]](report, **request["arguments"])
    except BaseException as error:  # plugins may raise SystemExit, or anything
        report.add(error=describe_exception(error), traceback=traceback.format_exc())
    report.add(finished=True)
    faulthandler.cancel_dump_traceback_later()


def _disable_core_dumps() -> None:
    """Keep a crash of this process from writing its memory to a file."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def try_backend(report: ReportFile, plugin_name: str, last_step: str) -> None:
    """Import a backend, probe it, open it and compute with it; `last_step` is the last step: probe, open or compute."""
    from plugrad.discovery.listing import find_plugin

    report.add(stage="it is looked for")
    _disable_other_hooks(plugin_name)
    plugin = find_plugin(plugin_name)
    report.add(stage="it is imported")
    import_module(plugin.target.partition(":")[0])
    try:
        _probe_open_and_compute(report, plugin, last_step)
    except PlugradError as error:
        # Report the plugin's own reason and traceback instead of plugrad's message about them.
        if not plugin.details:
            raise
        cause = error.__cause__
        reason = describe_exception(cause) if cause else plugin.reason
        report.add(error=reason, traceback=plugin.details)


def _probe_open_and_compute(report: ReportFile, plugin: Plugin, last_step: str) -> None:
    """Probe a plugin's backend, open it and compute with it, up to `last_step`, and report each result."""
    from plugrad.cli.trial import run_checks
    from plugrad.discovery import loading
    from plugrad.discovery.listing import plugins
    from plugrad.extend import DTYPES
    from plugrad.registry.kernels import list_kernels

    report.add(stage="it is asked whether it can start")
    probe = loading.probe(plugin)
    devices = [device._asdict() for device in probe.devices]
    report.add(can_start=probe.ok, refusal=probe.reason, devices=devices)
    if last_step == "probe" or not probe.ok:
        return
    report.add(stage="it is opened")
    opened = loading.open_backend(plugin.qualified_name)
    configs = list_kernels(opened)
    *from_packs, _ = opened.kernels
    report.add(
        device=opened.device,
        stored_dtypes=[str(d) for d in DTYPES if d in opened.dtypes()],
        kernels={c.kernel_name: "host" if c.on_host else "own" for c in configs},
        kernels_of_packs={owner: list(opened.kernels[owner]) for owner in from_packs},
        packs=[
            {
                "name": str(p),
                "status": p.status,
                "reason": p.reason,
                "details": p.details,
                "replaced": p.replaced,
            }
            for p in plugins("kernels")
            if p.backend_name == opened.name
        ],
        replaced=plugin.replaced,
    )
    if last_step == "open":
        report.add(contracts=_describe_contracts())
        return
    report.add(stage="it computes")
    checks = run_checks(plugin.qualified_name)
    report.add(checks=checks)
    if any(check["result"] in FAILED_CHECK_RESULTS for check in checks):
        report.add(stage="it computes without kernel packs")
        report.add(blamed=_find_packs_with_wrong_kernels(plugin.qualified_name, opened, checks))
    report.add(stage="it is asked for its memory")
    loading.validate_memory(opened)
    report.add(stage="it is closed")
    loading.close_backend(opened)


def _find_packs_with_wrong_kernels(
    backend_name: str, backend: Backend, checks: Sequence[dict[str, str]]
) -> dict[str, str]:
    """Return, for each failed check, the qualified names of the plugins whose kernels are the cause.

    Their kernels are taken away from the device, one plugin after the other, until the results are right.
    """
    from plugrad.cli.trial import run_checks
    from plugrad.registry.kernels import remove_kernel_table

    wrong = {check["check"] for check in checks if check["result"] in FAILED_CHECK_RESULTS}
    blamed: dict[str, str] = {}
    *from_packs, _ = backend.kernels
    for owner in from_packs:
        remove_kernel_table(backend, owner)
        right = {
            check["check"]
            for check in run_checks(backend_name)
            if check["result"] not in FAILED_CHECK_RESULTS
        }
        blamed |= dict.fromkeys(sorted(wrong & right), owner)
        wrong -= right
        if not wrong:
            break
    return blamed


def import_op_pack(report: ReportFile, plugin_name: str) -> None:
    """Import an op pack, given by name, and add what it registers to the report file."""
    from plugrad.discovery.listing import find_plugin
    from plugrad.discovery.packs import op_pack

    report.add(stage="it is looked for")
    _disable_other_hooks(plugin_name)
    pack = find_plugin(plugin_name, "ops")
    report.add(stage="it is imported")
    try:
        op_pack(plugin_name)
    except PluginUnavailable:
        report.add(error=pack.reason, traceback=pack.details)
    report.add(replaced=pack.replaced)


def load_doctor_section(report: ReportFile, plugin_name: str) -> None:
    """Load one plugin with hooks, and report the section that it adds to the output of ``plugrad doctor``."""
    from plugrad.discovery import hooks
    from plugrad.discovery.listing import find_plugin, plugins

    report.add(stage="it is looked for")
    _disable_other_hooks(plugin_name)
    find_plugin(plugin_name, "hooks")
    report.add(stage="its hooks are loaded")
    hooks.load_new_hooks()
    report.add(stage="it is asked for its section")
    sections = [section for _, section in hooks.call_hooks("plugrad_doctor_section")]
    report.add(sections=[[str(title), str(text)] for title, text in sections])
    plugin = next(p for p in plugins("hooks") if p.qualified_name == plugin_name)
    report.add(replaced=plugin.replaced)
    if plugin.reason:
        report.add(error=plugin.reason, traceback=plugin.details)


def _disable_other_hooks(except_plugin: str) -> None:
    """Disable the hooks of all plugins except `except_plugin`, so that their failures are not attributed to it."""
    from plugrad.discovery.listing import plugins
    from plugrad.settings.layers import config

    others = [p.qualified_name for p in plugins("hooks") if p.qualified_name != except_plugin]
    config.set("plugins.disable", [*config.get("plugins.disable"), *others])


def report_active_backend(report: ReportFile) -> None:
    """Report the backend that the settings select, what decided it and which were passed over, or why there is none."""
    from plugrad.discovery.selection import list_automatic_candidates, reason_not_automatic, which
    from plugrad.discovery.state import state
    from plugrad.settings.layers import config

    report.add(stage="a backend is chosen")
    try:
        selection = which()
    except PlugradError as error:
        setting = config.explain("backend")
        report.add(none=str(error), decided_by=setting.layer if setting.value is not None else "")
        return
    name = next(name for (name, _), opened in state.opened.items() if opened is selection.backend)
    report.add(
        device=selection.device,
        layer=selection.layer,
        description=selection.description,
        qualified_name=name,
    )
    if selection.layer == "automatic choice":
        better = takewhile(lambda p: p.name != selection.backend.name, list_automatic_candidates())
        report.add(passed_over={plugin.name: reason_not_automatic(plugin) for plugin in better})


def report_contracts(report: ReportFile) -> None:
    """Add the contracts that core declares to the report file, whether or not a backend implements them."""
    report.add(contracts=_describe_contracts())


def _describe_contracts() -> dict[str, Any]:
    """Return the description of each contract of core, by kernel name."""
    from plugrad.extend import KERNELS
    from plugrad.registry.batching import describe_batching
    from plugrad.registry.composites import find_composite

    return {
        name: {
            "family": kernel.family,
            "inputs": list(kernel.inputs),
            "attributes": list(kernel.attributes),
            "composite": (has_body := find_composite(kernel) is not None),
            "batching": describe_batching(kernel, has_body=has_body),
            "contract": str(kernel.description),
        }
        for name, kernel in KERNELS.items()
    }


JOB_FUNCTION_BY_NAME: Final[dict[str, Callable[..., None]]] = {
    job.__name__: job
    for job in (
        try_backend,
        import_op_pack,
        load_doctor_section,
        report_active_backend,
        report_contracts,
    )
}
"""By name, the functions above that do jobs."""
