"""The hook that adds a section about collectives to ``plugrad doctor``."""

from __future__ import annotations

from plugrad.extend import hookimpl
from plugrad_distributed.discovery import describe_collectives


@hookimpl
def plugrad_doctor_section() -> tuple[str, str]:
    """Return the section of ``plugrad doctor`` on which collectives can start."""
    found = describe_collectives()
    width = max(map(len, found))
    lines = [f"{name:{width}}  {state}" for name, state in found.items()]
    return "Collectives, for training in many processes", "\n".join(lines)
