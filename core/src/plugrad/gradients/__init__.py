"""Gradient rules: one for each differentiable input of each kernel, one module per family.

`plugrad.gradient` documents how a rule names what it needs. A family is imported when the gradient of
one of its kernels is asked for, because 34 of them would be a fifth of the time of ``import plugrad``.
"""

import sys

from plugrad.contract.kernel import KERNELS, get_contract
from plugrad.importing import import_lazily
from plugrad.registry.gradients import set_loader
from plugrad.settings import journal


def import_gradient_rules(kernel_name: str) -> None:
    """Import the rules of a kernel's family if the kernel is plugrad's own."""
    contract = get_contract(kernel_name)
    if contract is not None and contract.rule.__module__ == f"plugrad.kernels.{contract.family}":
        # A journal of their own: these rules do not belong to the plugin whose code asks for them, and
        # an interrupted import leaves none.
        with journal.record_registrations(is_deferred=True) as journal_of_rules:
            try:
                import_lazily(f"plugrad.gradients.{contract.family}")
            except BaseException:
                for _, name in (change.subject for change in journal_of_rules.changes):
                    sys.modules.pop(f"plugrad.gradients.{KERNELS[name].family}", None)
                raise


set_loader(import_gradient_rules)
