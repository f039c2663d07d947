"""The progress bar of a training."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_progress_bar(
    batches: Iterable[Any], *, batch_count: int | None, title: str, is_shown: bool | None
) -> Any:
    """Return a tqdm progress bar around batches: a widget in a notebook, text elsewhere.

    Args:
        batches: what is counted.
        batch_count: the number of batches, if it is known.
        title: what stands before the bar.
        is_shown: whether to draw it; None draws it in notebooks and on terminals.
    """
    with warnings.catch_warnings():
        # It warns that it is new, and in notebooks without ipywidgets, where it draws text.
        warnings.simplefilter("ignore")
        from tqdm.autonotebook import tqdm  # not needed where nothing is drawn
    # tqdm takes the output of a notebook for a file, and draws nothing by itself.
    if is_shown is None and is_in_notebook():
        is_shown = True
    is_disabled = None if is_shown is None else not is_shown
    return tqdm(batches, total=batch_count, desc=title, unit="step", disable=is_disabled)


def is_in_notebook() -> bool:
    """Return whether the program runs in a notebook that can display widgets."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and "IPKernelApp" in shell.config
