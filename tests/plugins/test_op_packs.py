"""Packs of ops, and backends that are named by their module."""

import warnings

import pytest

import plugrad
from plugins.hostile import backend_source
from plugrad.errors import (
    BackendUnavailable,
    KernelNotFound,
    PluginConflict,
    PluginNotFound,
    PluginUnavailable,
)
from plugrad.extend import KERNELS


def find_plugin(name, kind):
    (found,) = [p for p in plugrad.plugins(kind) if p.name == name]
    return found


def cube_of_2(device):
    x = plugrad.asarray([2.0], device=device)
    return plugrad.run_kernel("ThirdPower", {"x": x}).tolist()


def add_2_and_2(device):
    x = plugrad.asarray([2.0], device=device)
    return (x + x).tolist()


# --- op packs -------------------------------------------------------------------------------------

OP_PACK_SOURCE = """
    import plugrad
    from plugrad.extend import KernelConfig, Spec, kernel, register_gradient, register_kernel

    @kernel("ThirdPower", family="acme")
    def cube_kernel(x: Spec) -> Spec:
        "x * x * x"
        return x

    register_gradient(cube_kernel, x=lambda dy, x: dy * 3 * x * x)
    register_kernel(KernelConfig("ThirdPower", "cpu", lambda x: x**3))

    def cube(x):
        return cube_kernel(plugrad.asarray(x))
"""


def test_op_pack_is_imported_on_first_use(site):
    site.install_pack("ops", "acme", OP_PACK_SOURCE)
    assert (find_plugin("acme", "ops").status, site.imported()) == ("available", [])
    acme = plugrad.op_pack("acme")
    assert plugrad.grad(acme.cube)(2.0).item() == 12.0
    assert plugrad.op_pack("acme-acme::acme") is acme
    assert find_plugin("acme", "ops").status == "active"


def test_op_pack_is_found_by_an_unknown_kernel_name(site):
    site.install_pack("ops", "acme", OP_PACK_SOURCE)
    x = plugrad.asarray([2.0])
    assert plugrad.grad(lambda x: plugrad.run_kernel("ThirdPower", {"x": x}))(x).tolist() == [12.0]
    assert find_plugin("acme", "ops").status == "active"


def test_op_pack_that_lists_its_kernels_is_imported_for_these_only(site):
    files = {"acme_acme/plugrad-plugin.toml": 'api = "1.0"\nkernels = ["ThirdPower"]\n'}
    site.install_pack("ops", "acme", OP_PACK_SOURCE, files=files)
    x = plugrad.asarray([2.0])
    with pytest.raises(KernelNotFound, match="no kernel is called 'Cubee'"):
        plugrad.run_kernel("Cubee", {"x": x})
    assert site.imported() == []
    assert plugrad.run_kernel("ThirdPower", {"x": x}).tolist() == [8.0]


def test_failing_op_pack_is_rolled_back(site):
    site.install_pack("ops", "bad", OP_PACK_SOURCE + "\n    1 / 0\n")
    site.install_pack("ops", "good", OP_PACK_SOURCE)
    for _ in range(2):
        with pytest.raises(
            PluginUnavailable, match=r"op pack 'bad' \(acme-bad 1.2\).*ZeroDivision"
        ):
            plugrad.op_pack("bad")
    assert "ThirdPower" not in KERNELS
    assert plugrad.get_gradient("ThirdPower") is plugrad.get_kernel("ThirdPower", "cpu") is None
    assert "Traceback" in find_plugin("bad", "ops").details
    assert cube_of_2("cpu") == [8.0]  # from the other pack, without a warning: the reason is known


def test_op_pack_that_fails_while_somebody_looks_for_a_kernel_is_a_warning(site):
    site.install_pack("ops", "bad", "raise SystemExit(3)")
    site.install_pack("ops", "good", OP_PACK_SOURCE)
    with pytest.warns(RuntimeWarning, match="op pack 'bad'.* cannot be imported: SystemExit: 3"):
        assert cube_of_2("cpu") == [8.0]


def test_unknown_op_pack_suggests_the_nearest(site):
    site.install_pack("ops", "acme", OP_PACK_SOURCE)
    with pytest.raises(
        PluginNotFound, match=r"op pack called 'acne' \(did you mean 'acme'\?\); installed are acme"
    ):
        plugrad.op_pack("acne")


def test_op_packs_of_one_name_are_a_conflict(site):
    site.install_pack("ops", "acme", "x = 1", distribution="one-ops")
    site.install_pack("ops", "acme", "x = 2", distribution="other-ops")
    with pytest.raises(PluginConflict, match="choose 'one-ops::acme' or 'other-ops::acme'"):
        plugrad.op_pack("acme")
    assert plugrad.op_pack("other-ops::acme").x == 2


def test_disabled_op_pack_is_not_imported(site):
    site.install_pack("ops", "acme", OP_PACK_SOURCE)
    plugrad.config.set("plugins.disable", "acme")
    with pytest.raises(PluginUnavailable, match=r"is blocked: plugins.disable in plugrad.config"):
        plugrad.op_pack("acme")
    with pytest.raises(KernelNotFound):
        cube_of_2("cpu")
    assert site.imported() == []


# --- a backend by its module ----------------------------------------------------------------------


def test_backend_may_be_named_by_its_module(site, monkeypatch):
    site.install("toy", target="acme_toy:backend")
    (site.folder / "acme_toy-1.2.dist-info" / "entry_points.txt").unlink()
    site.refresh()
    assert "toy" not in [b.name for b in plugrad.backends()]
    with plugrad.use("module://acme_toy:backend"):
        assert plugrad.zeros(1, device="cpu").to("module://acme_toy:backend:1").device == "toy:1"
        assert plugrad.which().device == "toy:0"
        assert plugrad.asarray([1.0], device="toy").device == "toy:0"
    monkeypatch.setenv("PLUGRAD_BACKEND", "module://acme_toy:backend,cpu")
    assert plugrad.asarray([1.0]).device == "toy:0"
    (found,) = [b for b in plugrad.backends() if b.name == "toy"]
    assert (found.status, found.qualified_name) == ("active", "module://acme_toy:backend")


def test_module_that_was_mended_works_after_a_refresh(site):
    site.install("toy", "raise OSError('half written')")
    (site.folder / "acme_toy-1.2.dist-info" / "entry_points.txt").unlink()
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="OSError: half written"):
            plugrad.use("module://acme_toy:backend")
    (site.folder / "acme_toy" / "__init__.py").write_text(backend_source("toy"))
    site.refresh()
    with plugrad.use("module://acme_toy:backend"):
        assert plugrad.which().device == "toy:0"


def test_module_inside_a_package_is_not_looked_for_before_it_is_used(site):
    site.install("toy", "raise AssertionError('the parent was imported')")
    with pytest.raises(BackendUnavailable, match="AssertionError: the parent was imported"):
        plugrad.use("module://acme_toy.inner:backend")
    assert site.imported() == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "module://a_package_that_is_not_there:backend",
            "'a_package_that_is_not_there' is not inst",
        ),
        ("module://acme_toy", "'acme_toy:' must be like 'package.module:object'"),
        ("module://", "':' must be like"),
        ("module://a b:c", "the entry point 'a b:c' must be like 'package.module:object'"),
    ],
)
def test_malformed_module_is_an_error(site, spec, message):
    site.install("toy")
    with pytest.raises(plugrad.errors.BackendNotFound, match=message):
        plugrad.use(spec)


def test_two_backends_of_one_name_cannot_both_be_loaded(site):
    site.install("toy", distribution="acme-toy")
    site.install("toy", distribution="other-toy")
    with (
        plugrad.use("acme-toy::toy"),
        pytest.raises(
            PluginConflict,
            match=r"backend 'toy' \(acme-toy 1.2\) is loaded in this process already",
        ),
    ):
        plugrad.use("other-toy::toy")
    with warnings.catch_warnings(), plugrad.use("acme-toy::toy"):
        warnings.simplefilter("error")
        assert add_2_and_2("acme-toy::toy") == [4.0]


@pytest.mark.parametrize(
    "commands",
    [
        "commands = 3",
        "commands.more = 'acme.command'",
        "commands.more = { summary = 'more' }",
        "commands.more = { summary = 'more', module = 'acme.command', alias = 'm' }",
        "commands.more = { summary = '', module = 'acme.command' }",
        "commands.More = { summary = 'more', module = 'acme.command' }",
    ],
)
def test_commands_of_a_manifest_are_checked(site, commands):
    files = {"acme_toy/plugrad-plugin.toml": f'api = "1.0"\n{commands}\n'}
    site.install_pack("ops", "toy", "", files=files)
    assert (
        "must be a table from names to tables, as in [commands.acme]"
        in find_plugin("toy", "ops").reason
    )
