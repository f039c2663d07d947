"""The decorator for functions that will be removed."""

import warnings

import pytest

from plugrad.errors import ArgumentValueError
from plugrad.extend import deprecated


@deprecated("call area(w, h)", since="1.2", removal="1.3")
def surface(w, h):
    """Return the area."""
    return w * h


def test_call_of_a_deprecated_function_warns_at_the_caller_with_the_replacement():
    with pytest.warns(
        DeprecationWarning,
        match=r"surface is deprecated since .* 1\.2, and 1\.3 will not have it: call area",
    ) as told:
        assert surface(2, h=3) == 6
    assert told[0].filename == __file__
    assert surface.__name__ == "surface"
    assert surface.__doc__ == "Return the area."


def test_defining_a_deprecated_function_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        deprecated("call area(w, h)", since="1.9", removal="2.0")(lambda: None)


@pytest.mark.parametrize(
    ("since", "removal"), [("1.2", "1.2"), ("1.2.0", "1.2.9"), ("1.3", "1.2"), ("2.0", "1.9")]
)
def test_removal_is_at_least_one_minor_version_after_deprecation(since, removal):
    with pytest.raises(ArgumentValueError, match=r"at least one minor version after since"):
        deprecated("call area(w, h)", since=since, removal=removal)


@pytest.mark.parametrize("version", ["soon", "1", "v1.2"])
def test_deprecated_rejects_malformed_versions(version):
    with pytest.raises(ArgumentValueError, match=rf"removal={version!r} must be a version"):
        deprecated("call area(w, h)", since="1.2", removal=version)
