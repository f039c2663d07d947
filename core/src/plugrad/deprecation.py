"""The helper for names that a later version will not have."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from plugrad.errors import ArgumentValueError, short_repr, warn

if TYPE_CHECKING:
    from collections.abc import Callable

ParameterTypes = ParamSpec("ParameterTypes")
"""The types of a deprecated function's parameters."""
ResultType = TypeVar("ResultType")
"""The type of a deprecated function's result."""


def deprecated(
    instead: str, *, since: str, removal: str
) -> Callable[[Callable[ParameterTypes, ResultType]], Callable[ParameterTypes, ResultType]]:
    """Return a decorator for a deprecated function; a call warns and names the replacement.

    >>> @deprecated("call area(w, h)", since="1.2", removal="1.4")
    ... def surface(w, h):
    ...     return w * h

    The warning is a `DeprecationWarning`, which points to the line that calls the function.

    Args:
        instead: the remedy, as an instruction: ``"call area(w, h)"``.
        since: the version of the distribution that warns first.
        removal: the version that does not have the function any more, at least one minor version later.

    Raises:
        ArgumentValueError: the versions are malformed, or too close to each other.
    """
    versions: list[tuple[int, ...]] = []
    for name, version in (("since", since), ("removal", removal)):
        if not re.fullmatch(r"\d+\.\d+(\.\d+)*", version):
            raise ArgumentValueError(
                f"deprecated: {name}={short_repr(version)} must be a version such as '1.2'"
            )
        versions.append(tuple(map(int, version.split(".")[:2])))
    if versions[1] <= versions[0]:
        raise ArgumentValueError(
            f"deprecated: removal={removal!r} must be at least one minor version after since={since!r}, "
            "so that programs have the time to change"
        )

    def decorate(
        function: Callable[ParameterTypes, ResultType],
    ) -> Callable[ParameterTypes, ResultType]:
        package = function.__module__.partition(".")[0]
        message = (
            f"{package}.{function.__qualname__} is deprecated since {package} {since}, and {removal} "
            f"will not have it: {instead}"
        )

        @wraps(function)
        def warn_and_call(
            *args: ParameterTypes.args, **kwargs: ParameterTypes.kwargs
        ) -> ResultType:
            warn(message, DeprecationWarning)
            return function(*args, **kwargs)

        return warn_and_call

    return decorate
