"""Batching rules: how each kernel runs on tensors that hide a leading axis, one module per family.

`plugrad.extend.register_batching` documents a rule. A family is imported when `plugrad.vmap` meets one of its kernels.
"""

import sys

from plugrad.contract.kernel import KERNELS, get_contract
from plugrad.importing import import_lazily, list_module_names
from plugrad.registry.batching import set_loader
from plugrad.settings import journal


def import_batching_rules(kernel_name: str) -> None:
    """Import the rules of a kernel's family if the kernel is plugrad's own."""
    contract = get_contract(kernel_name)
    if (
        contract is not None
        and contract.family in list_module_names(__name__)
        and contract.rule.__module__ == f"plugrad.kernels.{contract.family}"
    ):
        # A journal of their own: these rules do not belong to the plugin whose code asks for them, and
        # an interrupted import leaves none.
        with journal.record_registrations(is_deferred=True) as journal_of_rules:
            try:
                import_lazily(f"plugrad.batching.{contract.family}")
            except BaseException:
                for _, name in (change.subject for change in journal_of_rules.changes):
                    sys.modules.pop(f"plugrad.batching.{KERNELS[name].family}", None)
                raise


set_loader(import_batching_rules)
