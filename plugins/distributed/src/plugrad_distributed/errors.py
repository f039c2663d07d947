"""The errors of exchanges between processes."""

from __future__ import annotations

from plugrad.extend import PlugradError


class CollectiveNotFound(PlugradError, LookupError):
    """No installed distribution provides a collective of this name.

    Cause: ``dist.init("mpj")``, where no entry point of the group ``plugrad.collectives`` is called so. Remedy: one of
    the names in the message.
    """


class CollectiveUnavailable(PlugradError, RuntimeError):
    """A collective cannot start: its library is missing, or the processes do not find each other.

    Example: ``dist.init("mpi")`` without mpi4py. Remedy: what the message says, such as
    ``pip install "plugrad[mpi]"``.
    """


class CollectiveFailed(PlugradError, RuntimeError):
    """An exchange failed, usually because another rank has ended; the cause is the library's own error.

    Remedy: read the output of the rank that ended first. Start the job again from its last checkpoint.
    """


class CollectiveTimeout(CollectiveFailed, TimeoutError):
    """An exchange exceeded its timeout; the message names the ranks that were missing.

    Cause: a rank is stuck, much slower than the others, or has left the loop that the others are in. Remedy: look at
    that rank; if it only needs longer, give ``dist.init(timeout=…)`` more seconds.
    """


class RanksDisagree(PlugradError, RuntimeError):
    """The ranks do not exchange the same thing: variables, shapes, order or attempt differ.

    Cause: a branch that only some ranks take, variables in the order of a set, or one rank that has taken a step
    more. Nothing has been reduced when it is raised, and it is raised on all ranks. Remedy: let every rank run the
    same program; the message says where two of them differ first.
    """
