"""The generated pages are up to date; ``make docs`` writes them anew."""

import pytest

import plugrad
from consistency import contract_pages, generated, notebooks
from consistency.committed import committed_kernel_table
from consistency.coverage import KERNEL_FAMILIES, family_kernels, measure_coverage
from consistency.tfjs import tfjs_kernels
from plugrad.discovery.listing import first_party_distributions

REMEDY = "run `make docs` and commit what it writes"


def test_page_of_kernels_lists_every_contract():
    assert list(committed_kernel_table()) == [
        n for family in KERNEL_FAMILIES for n in family_kernels(family)
    ], REMEDY


def test_page_of_kernels_matches_the_kernels_that_the_backend_runs(backend):
    (candidate,) = [b for b in plugrad.backends() if b.name == backend]
    if candidate.distribution.lower() not in first_party_distributions():
        pytest.skip(f"the page is about first-party backends, not about {candidate.distribution}")
    cells = {name: row[backend] for name, row in committed_kernel_table().items()}
    ran = measure_coverage()
    assert cells == {n: generated.dtypes(ran[n]) if n in ran else "–" for n in cells}, REMEDY


def test_cpu_has_every_kernel_of_tensorflow_js():
    with plugrad.use("cpu"):
        functions = {c.kernel_name for c in plugrad.get_kernels_for_backend("cpu")}
    assert len(tfjs_kernels()) == generated.TFJS_KERNEL_COUNT
    assert tfjs_kernels() <= functions


PAGES_COMPARED_BY_OTHER_TESTS = {"accuracy.md", "kernels.md", "numeric-rules.md"}
"""By `test_accuracy`, `test_page_of_kernels_matches_the_kernels_that_the_backend_runs` and `test_numeric_rules`."""


@pytest.mark.parametrize("page", sorted(generated.PAGES.keys() - PAGES_COMPARED_BY_OTHER_TESTS))
def test_page_is_up_to_date(page):
    written = (generated.FOLDER / page).read_text("utf-8")
    assert written == generated.PAGES[page](), REMEDY


def test_contracts_folder_has_no_stale_pages():
    folder = generated.FOLDER / contract_pages.FOLDER
    assert sorted(path.stem for path in folder.iterdir()) == KERNEL_FAMILIES


@pytest.mark.parametrize("name", notebooks.EXAMPLE_NAMES)
def test_notebook_is_up_to_date(name):
    assert notebooks.notebook_path(name).read_text("utf-8") == notebooks.make_notebook(name), REMEDY


def test_manifest_lists_the_kernels_that_the_backend_registers(backend):
    if backend not in generated.BACKENDS:
        pytest.skip(f"{backend} is a third party's")
    for plugin in (backend, *(pack for pack, its in generated.PACKS.items() if its == backend)):
        written = generated.manifest_file(plugin).read_text("utf-8")
        assert written == generated.with_kernels(plugin), REMEDY


def test_native_pack_exports_every_c_function_that_it_loads():
    asked = generated.exports()
    if asked is None:
        pytest.skip("this processor, or this installation, does not have every variant")
    assert generated.EXPORTS_FILE.read_text("utf-8") == asked, REMEDY
