"""A kernel pack for the backend ``"cpu"``: kernels in C, where they are faster than NumPy's."""

from plugrad.extend import KernelTable


def register() -> KernelTable:
    """Return the kernels; plugrad calls this function when the cpu backend has been loaded."""
    from plugrad_native.variants import (
        has_any_variant,  # not at the top: listing plugins runs no code
    )

    if not has_any_variant():  # a wheel without compiled code, for other platforms
        return KernelTable("cpu")
    from plugrad_native.kernels import table

    return table
