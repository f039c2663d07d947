"""`init`: a process finds out which world it belongs to, joins it and picks its device."""

from __future__ import annotations

import atexit
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Final, NoReturn

import plugrad
from plugrad.extend import ArgumentError, ArgumentValueError
from plugrad_distributed.discovery import choose_collective
from plugrad_distributed.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

OUTPUT_FLUSH_SECONDS: Final = 1.0
"""How long a rank waits before it ends all: launchers lose what it has printed and they have not read."""
DEFAULT_TIMEOUT_SECONDS: Final = 300.0
"""The seconds that an exchange waits for the other ranks by default."""

_current_world: World | None = None


def init(
    collective: str | None = None,
    *,
    devices: str | Sequence[str] | None = None,
    timeout: float | None = None,
    attempt: str = "",
) -> World:
    """Join the world in which this process was started, select its device, and return the world.

    >>> dist.init("single")
    <rank 0 of 1, single>

    Which collective connects the ranks: the argument, else the setting ``distributed.collective``, else how the process
    was started: by mpiexec or another launcher of MPI, by torchrun or Ray Train (gloo), or alone. A second call returns
    the same world.

    From here on, a rank that ends with an error prints its traceback and ends the others, and so does a rank that
    leaves the program while others go on.

    Args:
        collective: "mpi", "gloo", "single", or the name of one that another distribution brings.
        devices: which device each rank of a machine uses, in the order of `local_rank`, and again from the first one
            where there are more ranks; else the setting ``distributed.devices``, else those of the active backend.
        timeout: how many seconds an exchange waits for the others before it is an error; else the setting
            ``distributed.timeout``, else 300.
        attempt: what tells this start of a job from earlier ones, the same on all ranks; where ranks of two attempts
            meet, they disagree.

    Raises:
        CollectiveNotFound, CollectiveUnavailable: there is no such collective, or it cannot start.
        ArgumentError, ArgumentValueError: an argument is none of the above, or the world was joined otherwise before.
        BackendNotFound, BackendUnavailable: a device is not there.
    """
    global _current_world
    if _current_world is not None:
        if collective not in (None, _current_world.collective.name):
            raise ArgumentError(
                f"init: this process has joined a world by {_current_world.collective.name!r} already, and "
                f"{collective!r} is asked for; call dist.close() first"
            )
        return _current_world
    seconds = _read_timeout(timeout)
    names = _read_devices(devices)
    cls, reason = choose_collective(collective)
    world = World(cls(), timeout=seconds, attempt=attempt, reason=reason)
    if world.size > 1:
        sys.excepthook = _make_exception_hook(world, sys.excepthook)
    _current_world = world
    atexit.register(_leave_world_at_exit, world)
    _select_device(names, world.local_rank)
    label = plugrad.zeros(0).backend.label
    world.devices = tuple(world.submit(world.gather_texts, label).result())
    return world


def current_world(function: str = "world") -> World:
    """Return the world that `init` has joined.

    Raises:
        ArgumentError: it has not been called.
    """
    if _current_world is None:
        raise ArgumentError(
            f"{function}: this process has not joined a world; call dist.init() first"
        )
    return _current_world


def abandon_world() -> None:
    """Forget the world without leaving it in order, because it has failed."""
    global _current_world
    _current_world = None


def close() -> None:
    """Leave the world together with all ranks; at the end of a program this happens automatically.

    >>> world = dist.init("single")
    >>> dist.close()
    """
    global _current_world
    world, _current_world = _current_world, None
    if world is not None:
        world.close()


def _leave_world_at_exit(world: World) -> None:
    """Leave the world at exit; if another rank goes on, end it."""
    if world is not _current_world:
        return
    try:
        close()
    except Exception:
        traceback.print_exc()
        _end_all_ranks(world)


def _make_exception_hook(
    world: World,
    previous_hook: Callable[[type[BaseException], BaseException, TracebackType | None], Any],
) -> Callable[[type[BaseException], BaseException, TracebackType | None], None]:
    """Return an exception hook that prints an uncaught error and then ends all ranks."""

    def end_all_ranks_on_error(
        exception_class: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        print(f"rank {world.rank} of {world.size} ends with an error:", file=sys.stderr)
        previous_hook(exception_class, error, traceback)
        _end_all_ranks(world)

    return end_all_ranks_on_error


def _end_all_ranks(world: World) -> NoReturn:
    """End all ranks after the output of this one has reached the launcher."""
    sys.stdout.flush()
    sys.stderr.flush()
    if world.size > 1:
        time.sleep(OUTPUT_FLUSH_SECONDS)
    world.collective.abort()


def _read_timeout(timeout: object) -> float:
    """Return a timeout in seconds, or raise unless it is a number above 0."""
    given = plugrad.config.get("distributed.timeout") if timeout is None else timeout
    try:
        seconds = DEFAULT_TIMEOUT_SECONDS if given is None else float(given)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - people pass anything
    except (TypeError, ValueError):
        raise ArgumentError(f"init: timeout={given!r:.80} must be a number of seconds") from None
    if not seconds > 0:
        raise ArgumentValueError(f"init: timeout={given!r} must be a positive number of seconds")
    return seconds


def _read_devices(devices: object) -> list[str]:
    """Return a list of device names, or raise unless it is one."""
    given: Any = plugrad.config.get("distributed.devices") if devices is None else devices
    parts: list[Any] = given.split(",") if isinstance(given, str) else list(given or ())
    if not all(isinstance(part, str) for part in parts):
        raise ArgumentError(
            f"init: devices={given!r:.80} must be names, such as ['webgpu:0', 'cpu']"
        )
    return [part.strip() for part in parts]


def _select_device(device_names: list[str], local_rank: int) -> None:
    """Select the device for this rank by its number on the machine."""
    if not device_names:
        if ":" in str(plugrad.config.get("backend") or ""):
            return  # the user has selected a device
        backend = plugrad.which().backend
        found = backend.probe().devices
        device_names = [f"{backend.name}:{d.name}" for d in found if not d.is_software]
        if len(device_names) < 2:
            return  # what is selected is the only one
    plugrad.use(device_names[local_rank % len(device_names)])
