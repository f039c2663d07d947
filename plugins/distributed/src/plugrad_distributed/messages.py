"""Formatting of ranks for error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def format_rank_list(ranks: Sequence[int]) -> str:
    """Format a list of ranks for a message.

    >>> format_rank_list([1, 3])
    'ranks 1 and 3'
    """
    *first, last = map(str, ranks[:8])
    text = f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"
    return text if len(ranks) <= 8 else f"{text}, and {len(ranks) - 8} more"


def describe_missing_ranks(ranks: Sequence[int]) -> str:
    """Describe which ranks were missing; if none is, all came but too late."""
    return format_rank_list(ranks) if ranks else "ranks that came when it had given up"
