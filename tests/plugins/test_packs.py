"""Kernel packs and op packs: kernels for the backend of somebody else, and modules of ops."""

import json
import shutil
import textwrap

import pytest

import plugrad
from plugins.hostile import MANIFEST, write_distribution
from plugins.running import run_command_in_new_process
from plugrad.discovery import packs
from plugrad.errors import (
    KernelNotFound,
)
from plugrad.extend import KERNELS, Spec, kernel

PACK = """
    import numpy as np
    from plugrad.extend import KernelConfig

    def register():
        return [
            KernelConfig("ThirdPower", "toy", lambda x: x**3),
            KernelConfig("Add", "toy", lambda a, b: a + b + 100),
        ]
"""


def find_plugin(name, kind):
    (found,) = [p for p in plugrad.plugins(kind) if p.name == name]
    return found


def run_third_power(device):
    x = plugrad.asarray([2.0], device=device)
    return plugrad.run_kernel("ThirdPower", {"x": x}).tolist()


def add_2(device):
    x = plugrad.asarray([2.0], device=device)
    return (x + x).tolist()


# --- kernel packs ---------------------------------------------------------------------------------


def test_pack_is_loaded_right_after_its_backend_and_replaces_its_kernels(site):
    site.install("toy")
    site.install_pack("kernels", "toy.acme", PACK, distribution="toy-acme", target=":register")
    assert (find_plugin("toy.acme", "kernels").status, site.imported()) == ("available", [])
    warned = r"pack 'toy.acme' \(toy-acme 1.2\) replaces kernel Add of backend 'toy'"
    with pytest.warns(RuntimeWarning, match=warned) as caught:
        assert (run_third_power("toy"), add_2("toy")) == ([8.0], [104.0])
    assert len(caught) == 1
    pack = find_plugin("toy.acme", "kernels")
    assert (pack.status, pack.backend_name, pack.version) == ("active", "toy", "1.2")
    assert add_2("toy:1") == [104.0]  # another device of the same backend


def test_a_backend_can_name_the_packs_that_may_replace_its_kernels(site):
    site.install("toy", manifest=MANIFEST + 'packs = ["toy-acme"]\n')
    site.install_pack("kernels", "toy.acme", PACK, distribution="toy-acme", target=":register")
    assert add_2("toy") == [104.0]  # and no warning, which would be an error


def test_pack_of_another_backend_is_left_alone(site):
    site.install("toy")
    site.install_pack("kernels", "webgpu.acme", "raise AssertionError", target=":register")
    assert add_2("toy") == [4.0]
    assert find_plugin("webgpu.acme", "kernels").status == "available"


def test_pack_may_return_a_table(site):
    source = """
        from plugrad.extend import KernelTable
        from plugrad.kernels import unary
        import numpy as np
        table = KernelTable("toy")
        table.update({unary.sqrt: np.sqrt})
        def register():
            return table
    """
    site.install("toy")
    site.install_pack("kernels", "toy.acme", source, distribution="toy-acme", target=":register")
    assert plugrad.sqrt(plugrad.asarray([4.0], device="toy")).tolist() == [2.0]


def test_setup_functions_of_a_pack_run_for_each_device(site):
    source = """
        from plugrad.extend import KernelConfig
        ready = []
        def register():
            return [KernelConfig("ThirdPower", "toy", lambda x: x**3, ready.append)]
    """
    site.install("toy")
    site.install_pack("kernels", "toy.acme", source, distribution="toy-acme", target=":register")
    devices = [plugrad.zeros(1, device="cpu").to(d).backend for d in ("toy", "toy:1")]
    assert find_plugin("toy.acme", "kernels").load().__globals__["ready"] == devices


HEADER = "from plugrad.extend import KernelConfig\ndef register():\n    "
VALID_CONFIG = 'KernelConfig("ThirdPower", "toy", lambda x: x**3)'
BAD_PACKS = {
    "import error": ("import a_library_that_is_not_there", "ModuleNotFoundError"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "no such function": ("x = 1", "AttributeError"),
    "raises": (f"{HEADER}1 / 0", "ZeroDivisionError"),
    "raises halfway": (f"{HEADER}yield {VALID_CONFIG}\n    1 / 0", "ZeroDivisionError"),
    "returns nothing": (f"{HEADER}pass", "TypeError"),
    "returns nonsense": (
        f"{HEADER}return [{VALID_CONFIG}, 3]",
        "iterable of KernelConfig, but it contains a int",
    ),
    "another backend's kernel": (
        f'{HEADER}return [{VALID_CONFIG}, KernelConfig("Square", "cpu", lambda x: x)]',
        "kernel 'Square' for backend 'cpu'; it is loaded for 'toy'",
    ),
    "wrong parameters": (
        f'{HEADER}return [{VALID_CONFIG}, KernelConfig("Exp", "toy", lambda: 0)]',
        "RegistrationError: Exp on 'toy'",
    ),
    "the same twice": (f"{HEADER}return [{VALID_CONFIG}, {VALID_CONFIG}]", "RegistrationError"),
    "setup raises": (
        f'{HEADER}return [{VALID_CONFIG}, KernelConfig("Square", "toy", lambda x: x, lambda b: 1 / 0)]',
        "ZeroDivisionError",
    ),
}


@pytest.mark.parametrize(("source", "message"), BAD_PACKS.values(), ids=BAD_PACKS)
def test_pack_that_fails_is_left_out_whole_with_one_warning(site, source, message):
    site.install("toy")
    site.install_pack("kernels", "toy.bad", source, distribution="toy-bad", target=":register")
    site.install_pack(
        "kernels", "toy.good", PACK.replace("ThirdPower", "Fourth"), target=":register"
    )
    with (
        pytest.warns(RuntimeWarning, match="'toy.good' .* replaces kernel Add") as others,
        pytest.warns(
            RuntimeWarning, match=rf"(?s)'toy.bad' \(toy-bad 1.2\) is failed.*{message}"
        ) as caught,
    ):
        assert add_2("toy") == [104.0]  # the other pack's
    assert (len(others), len(caught)) == (1, 2)
    assert caught[0].filename == __file__
    bad = find_plugin("toy.bad", "kernels")
    assert bad.status == "failed"
    assert "Traceback" in bad.details
    assert plugrad.get_kernel("ThirdPower", "toy") is plugrad.get_kernel("Square", "toy") is None
    assert add_2("toy:1") == [104.0]  # a second warning would be an error


@pytest.mark.parametrize("name", ["acme", "webgpu.", ".acme", "webgpu.acme.more", "Web.acme"])
def test_bad_name_of_a_pack_is_reported(site, name):
    site.install_pack("kernels", name, PACK, distribution="acme-named")
    pack = find_plugin(name, "kernels")
    assert pack.status == "failed"
    assert "must be a backend's name, a dot and a name" in pack.reason


@pytest.mark.parametrize("value", ["toy.acme", "toy-acme", "toy-acme::toy.acme"])
def test_disabled_pack_is_not_loaded(site, value):
    site.install("toy")
    site.install_pack("kernels", "toy.acme", PACK, distribution="toy-acme", target=":register")
    plugrad.config.set("plugins.disable", value)
    assert add_2("toy") == [4.0]
    assert find_plugin("toy.acme", "kernels").status == "blocked"
    assert site.imported() == ["acme_toy"]


def test_packs_of_one_name_are_a_conflict_and_neither_is_loaded(site):
    site.install("toy")
    for distribution in ("one-pack", "other-pack"):
        site.install_pack(
            "kernels", "toy.acme", PACK, distribution=distribution, target=":register"
        )
    with pytest.warns(RuntimeWarning, match="is conflict.*also brings a kernel pack") as caught:
        assert add_2("toy") == [4.0]
    assert len(caught) == 2
    assert site.imported() == ["acme_toy"]


def test_pack_for_another_version_of_plugrad_is_left_out(site):
    site.install("toy")
    files = {"toy_acme/plugrad-plugin.toml": 'api = "2.0"\n'}
    site.install_pack(
        "kernels", "toy.acme", PACK, distribution="toy-acme", target=":register", files=files
    )
    assert find_plugin("toy.acme", "kernels").status == "incompatible"
    with pytest.warns(RuntimeWarning, match="is incompatible.*it needs plugin API 2.0"):
        assert add_2("toy") == [4.0]


def test_manifest_of_a_pack_is_checked(site):
    files = {"acme_toy_acme/plugrad-plugin.toml": 'api = "1.0"\ndevices = ["0"]\n'}
    site.install_pack("kernels", "toy.acme", PACK, target=":register", files=files)
    pack = find_plugin("toy.acme", "kernels")
    assert pack.status == "failed"
    assert (
        "unknown key 'devices' = ['0']; the keys are api, summary, url, priority, kernels"
        in pack.reason
    )


def test_kernels_that_a_pack_promises_are_known_before_it_is_loaded(site):
    site.install("toy")
    files = {"toy_acme/plugrad-plugin.toml": 'api = "1.0"\nkernels = ["ThirdPower"]\n'}
    site.install_pack(
        "kernels", "toy.acme", PACK, distribution="toy-acme", target=":register", files=files
    )
    with pytest.raises(
        KernelNotFound, match="'cpu' does not implement kernel 'ThirdPower'; 'toy' would"
    ):
        run_third_power("cpu")
    assert site.imported() == []


# --- packs beside packs ---------------------------------------------------------------------------

MANIFEST_WITH_PACK = MANIFEST + 'packs = ["known-native"]\n'


def install_native(site):
    """Install a pack that the backend lists in its manifest, and that shares kernels with other packs."""
    source = PACK.replace("100", "500").replace("x**3", "x**3 + 500")
    site.install("toy", manifest=MANIFEST_WITH_PACK)
    site.install_pack(
        "kernels", "toy.native", source, distribution="known-native", target=":register"
    )


def install_two(site):
    """Install packs of two authors that share kernels with a third pack; the second also has kernels of its own."""
    install_native(site)
    site.install_pack("kernels", "toy.one", PACK, distribution="acme-one", target=":register")
    source = PACK.replace("100", "200").replace("ThirdPower", "FourthPower")
    site.install_pack("kernels", "toy.two", source, distribution="zeta_two", target=":register")


def owners_of(device):
    """Return the distributions that implement kernels for a device, the one in effect first."""
    return list(plugrad.asarray([1.0], device=device).backend.kernels)


@pytest.mark.parametrize(
    ("order", "sum", "cube_of_2"),
    [
        ("one,two,native", 104.0, 8.0),
        ("two,one", 204.0, 8.0),
        ("two,native", 204.0, 508.0),
        ("native,one,two", 504.0, 508.0),
        (" zeta-two::toy.two , acme_one::toy.one", 204.0, 8.0),
    ],
)
def test_setting_decides_which_pack_comes_first(site, monkeypatch, order, sum, cube_of_2):
    install_two(site)
    monkeypatch.setenv("PLUGRAD_PACKS", order)
    # All that replace anything are named, or known to the backend: a warning would be an error.
    assert (add_2("toy"), run_third_power("toy")) == ([sum], [cube_of_2])
    assert {p.status for p in plugrad.plugins("kernels") if p.backend_name == "toy"} == {"active"}
    assert all(not p.replaced for p in plugrad.plugins("kernels"))


def test_without_the_setting_priorities_and_then_names_decide(site):
    install_two(site)
    files = {"acme_late/plugrad-plugin.toml": 'api = "1.0"\npriority = 3\n'}
    site.install_pack(
        "kernels", "toy.late", PACK.replace("100", "300"), distribution="acme-late",
        target=":register", files=files,
    )  # fmt: skip
    with pytest.warns(RuntimeWarning, match="'toy.late' .* replaces kernel Add") as caught:
        assert add_2("toy") == [304.0]
    assert owners_of("toy") == [
        "acme-late::toy.late",
        "acme-one::toy.one",
        "known-native::toy.native",
        "zeta_two::toy.two",
        "acme-toy::toy",
    ]
    # The others are hidden by one that comes before them, or known to the backend.
    assert [str(w.message).partition(" (")[0] for w in caught] == ["kernel pack 'toy.late'"]
    assert "choose it with PLUGRAD_PACKS=late or the setting packs" in str(caught[0].message)


def test_order_follows_the_setting_while_the_program_runs(site):
    install_two(site)
    plugrad.config.set("packs", ["one", "two"])
    assert add_2("toy") == [104.0]
    plugrad.config.set("packs", ["two", "one"])
    assert add_2("toy") == [204.0]
    with plugrad.config.override("packs", ["native"]):
        assert add_2("toy") == [504.0]
    assert add_2("toy") == [204.0]


def test_traced_programs_follow_the_order_of_packs(site):
    install_two(site)
    plugrad.config.set("packs", ["one", "two"])
    x, f = plugrad.asarray([1.0], device="toy"), plugrad.jit(lambda x: x + x + 1)
    for order in (["one", "two"], ["two", "one"], ["native"], ["one", "two"]):
        plugrad.config.set("packs", order)
        assert f(x).tolist() == (x + x + 1).tolist()
    with plugrad.override_kernel("Add", "toy", lambda a, b: a + b + 7):
        assert f(x).tolist() == [17.0]


def test_program_comes_before_packs(site):
    install_two(site)
    plugrad.config.set("packs", "one,two")
    with plugrad.override_kernel("Add", "toy", lambda a, b: a + b + 7):
        assert add_2("toy") == [11.0]
    assert add_2("toy") == [104.0]
    config = plugrad.KernelConfig("Add", "toy", lambda a, b: a + b + 8)
    plugrad.register_kernel(config, replace=True)
    assert add_2("toy") == [12.0]
    assert plugrad.unregister_kernel("Add", "toy") is config
    assert add_2("toy") == [104.0]


@pytest.mark.parametrize(("gone", "sum"), [("acme-one", 204.0), ("zeta_two", 104.0)])
def test_removing_one_pack_leaves_the_other(site, gone, sum):
    install_two(site)
    plugrad.config.set("packs", "one,two,native")
    assert add_2("toy") == [104.0]
    (folder,) = site.folder.glob(f"{gone.replace('-', '_')}-*.dist-info")
    shutil.rmtree(folder)
    site.refresh()
    plugrad.close_backend(plugrad.asarray([1.0], device="toy").backend)
    assert add_2("toy") == [sum]
    assert not any(owner.startswith(gone) for owner in owners_of("toy"))


@pytest.mark.parametrize(("gone", "sum"), [("acme-one", 204.0), ("zeta_two", 104.0)])
def test_uninstalled_pack_leaves_the_devices_that_are_open(site, gone, sum):
    install_two(site)
    plugrad.config.set("packs", "one,two,native")
    assert (add_2("toy"), add_2("toy:1")) == ([104.0], [104.0])
    (folder,) = site.folder.glob(f"{gone.replace('-', '_')}-*.dist-info")
    shutil.rmtree(folder)
    site.refresh()
    assert (add_2("toy"), add_2("toy:1")) == ([sum], [sum])
    assert not any(owner.startswith(gone) for owner in owners_of("toy"))


def test_dispose_functions_of_a_pack_that_is_taken_back_may_fail(site):
    source = """
        from plugrad.extend import KernelConfig

        disposed = []

        def fail(backend):
            raise OSError("the driver is gone")

        def register():
            return [
                KernelConfig("ThirdPower", "toy", lambda x: x**3, dispose_func=disposed.append),
                KernelConfig("Add", "toy", lambda a, b: a + b + 100, dispose_func=fail),
            ]
    """
    site.install("toy")
    site.install_pack("kernels", "toy.acme", source, distribution="toy-acme", target=":register")
    plugrad.config.set("packs", "acme")
    assert add_2("toy") == [104.0]
    backend = plugrad.asarray([1.0], device="toy").backend
    disposed = plugrad.get_kernel("ThirdPower", "toy").dispose_func.__self__
    with pytest.warns(RuntimeWarning, match="'Add' failed on .*toy.*OSError: the driver is gone"):
        packs.unregister_plugin_kernels("toy-acme::toy.acme")
    assert disposed == [backend]
    assert (add_2("toy"), find_plugin("toy.acme", "kernels").status) == ([4.0], "available")


def test_pack_that_fails_leaves_the_others_in_their_order(site):
    install_two(site)
    source = "def register():\n    raise OSError('no compiler')\n"
    site.install_pack("kernels", "toy.bad", source, distribution="acme-bad", target=":register")
    plugrad.config.set("packs", "bad,two,one")
    with pytest.warns(RuntimeWarning, match="'toy.bad' .* is failed.*no compiler"):
        assert add_2("toy") == [204.0]


def test_names_with_hyphens_work(site):
    site.install("toy", manifest=MANIFEST + 'packs = ["Acme.Fast"]\n')
    site.install_pack(
        "kernels", "toy.acme-fast", PACK, distribution="acme_fast", target=":register"
    )
    assert add_2("toy") == [104.0]  # known to the backend: a warning would be an error
    site.install_pack("ops", "acme-ops", "x = 1")
    assert plugrad.op_pack("acme-ops").x == 1


def test_names_with_hyphens_are_chosen_and_switched_off(site):
    install_two(site)
    site.install_pack(
        "kernels", "toy.acme-fast", PACK.replace("100", "900"), distribution="acme_fast",
        target=":register",
    )  # fmt: skip
    plugrad.config.set("packs", "acme-fast,one,two")
    assert add_2("toy") == [904.0]
    plugrad.config.set("packs", "one,two,ACME-fast::toy.acme-fast")
    assert add_2("toy") == [104.0]
    plugrad.config.set("plugins.disable", "Acme-Fast")
    site.install_pack("kernels", "toy.new", PACK, distribution="fast-one", target=":register")
    plugrad.config.set("plugins.disable", "FAST_ONE")
    assert find_plugin("toy.new", "kernels").status == "blocked"


def test_order_cannot_be_suggested_by_a_plugin(site):
    class Pushy:
        @plugrad.hookimpl
        def plugrad_configure(self):
            return {"packs": "two"}

    install_two(site)
    plugrad.config.set("packs", "one")
    plugrad.register_plugin(Pushy())
    with pytest.warns(RuntimeWarning, match="packs and settings that start with 'plugins.' cannot"):
        plugrad.config.get("memory_limit")
    plugrad.unregister_plugin("Pushy")


def test_pack_can_be_taken_back_and_loaded_again(site):
    source = """
        import plugrad
        from plugrad.extend import KernelConfig, Spec, kernel

        @kernel("Imported", family="acme")
        def imported(x: Spec) -> Spec:
            return x

        def register():
            @kernel("ThirdPower", family="acme")
            def third_power(x: Spec) -> Spec:
                return x
            return [KernelConfig("ThirdPower", "toy", lambda x: x**3)]
    """
    site.install("toy")
    site.install_pack("kernels", "toy.acme", source, distribution="toy-acme", target=":register")
    for _ in range(3):
        plugrad.asarray([1.0], device="toy")
        assert {"Imported", "ThirdPower"} <= KERNELS.keys()
        assert run_third_power("toy") == [8.0]
        packs.unregister_plugin_kernels("toy-acme::toy.acme")
        assert not {"Imported", "ThirdPower"} & KERNELS.keys()
        assert find_plugin("toy.acme", "kernels").status == "available"
        plugrad.close_backend(plugrad.asarray([1.0], device="toy").backend)


def test_hooks_can_be_taken_back_with_their_contracts_and_loaded_again(site):
    class Powers:
        @plugrad.hookimpl
        def plugrad_register_kernels(self, backend):
            if backend.name != "toy":
                return None

            @kernel("ThirdPower", family="acme")
            def third_power(x: Spec) -> Spec:
                return x

            return [plugrad.KernelConfig("ThirdPower", "toy", lambda x: x**3)]

    site.install("toy")
    plugrad.asarray([1.0], device="toy")
    for _ in range(3):
        plugrad.register_plugin(Powers())
        assert run_third_power("toy") == [8.0]
        plugrad.unregister_plugin("Powers")
        assert "ThirdPower" not in KERNELS


def test_kernels_of_hooks_take_part_in_the_order_and_belong_to_their_device(site):
    class Adding:
        @plugrad.hookimpl
        def plugrad_register_kernels(self, backend):
            more = 1000 + int(backend.device or 0)
            added = plugrad.KernelConfig("Add", "toy", lambda a, b: a + b + more)
            return [added] if backend.name == "toy" else None

    install_two(site)
    plugrad.config.set("packs", "one,two")
    assert add_2("toy") == [104.0]
    plugrad.register_plugin(Adding(), name="adding")
    assert add_2("toy") == [104.0]  # after those that the user has named
    plugrad.config.set("packs", "adding,one,two")
    assert (add_2("toy"), add_2("toy:1")) == ([1004.0], [1005.0])
    plugrad.config.reset("packs")
    assert add_2("toy") == [1004.0]  # what the program registers comes before what is installed
    plugrad.unregister_plugin("adding")
    assert add_2("toy") == [104.0]


def test_two_packs_of_one_name_can_be_told_apart_by_the_setting(site):
    site.install("toy")
    for distribution, more in (("one-pack", "100"), ("other-pack", "200")):
        source = PACK.replace("100", more)
        site.install_pack(
            "kernels", "toy.acme", source, distribution=distribution, target=":register"
        )
    plugrad.config.set("packs", "other-pack::toy.acme")
    assert add_2("toy") == [204.0]
    status = {p.distribution: p.status for p in plugrad.plugins("kernels") if p.name == "toy.acme"}
    assert status == {"one-pack": "blocked", "other-pack": "active"}


# --- the same with installed distributions, in processes of their own ------------------------------

EXP_PACK = """
    import numpy as np
    from plugrad.extend import KernelConfig

    def register():
        return [KernelConfig("Exp", "cpu", lambda x: np.exp(x) + (x.size == 1000) * 100)]
"""
PROGRAM = """
import warnings, plugrad
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    y = plugrad.exp(plugrad.zeros((1000,), device="cpu"))
print(y[0].item(), *(str(w.message).partition(" replaces")[0] for w in caught), sep="; ")
"""


@pytest.fixture
def two_packs(tmp_path):
    """A folder with two packs that share a cpu kernel with plugrad-native."""
    native = [p for p in plugrad.plugins("kernels") if p.distribution == "plugrad-native"]
    if not native or "Exp" not in native[0].manifest.kernels:
        pytest.skip("plugrad-native is not installed")
    for distribution, more in (("acme-exp", "100"), ("zeta-exp", "200")):
        package = distribution.replace("-", "_")
        manifest = 'api = "1.0"\nsummary = "another exp"\nkernels = ["Exp"]\n'
        write_distribution(
            tmp_path,
            distribution,
            entry_points={"plugrad.kernels": {f"cpu.{package[:4]}": f"{package}:register"}},
            files={
                f"{package}/__init__.py": textwrap.dedent(EXP_PACK).replace("* 100", f"* {more}"),
                f"{package}/plugrad-plugin.toml": manifest,
            },
        )
    return tmp_path


@pytest.mark.parametrize(
    ("order", "printed"),
    [
        ("zeta,acme,native", "201.0"),
        ("acme,zeta", "101.0"),
        ("native", "1.0"),
        ("", "101.0; kernel pack 'cpu.acme' (acme-exp 1.2)"),
    ],
)
def test_packs_beside_plugrad_native_run_in_the_order_of_the_setting(two_packs, order, printed):
    done = run_command_in_new_process(program=PROGRAM, folder=two_packs, PLUGRAD_PACKS=order)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, printed, "")


def test_removing_one_pack_beside_plugrad_native_leaves_the_other(two_packs):
    shutil.rmtree(two_packs / "zeta_exp-1.2.dist-info")
    done = run_command_in_new_process(program=PROGRAM, folder=two_packs, PLUGRAD_PACKS="zeta,acme")
    assert (done.stdout.strip(), done.stderr) == ("101.0", "")


def test_commands_show_the_order_of_packs(two_packs):
    def output(*arguments, status=0, order="zeta,acme,native"):
        done = run_command_in_new_process(*arguments, folder=two_packs, PLUGRAD_PACKS=order)
        assert (done.returncode, done.stderr) == (status, ""), done.stdout
        return " ".join(done.stdout.split())

    listing = output("list")
    places = [listing.index(name) for name in ("cpu.zeta", "cpu.acme", "cpu.native")]
    assert places == sorted(places)
    because = "by packs in environment variable PLUGRAD_PACKS"
    assert f"Comes as no. 1 of 3 packs, {because}" in listing
    assert f"order no. 2 of 3 packs, {because}" in output("info", "cpu.acme")
    report = output("doctor", "cpu", "cpu.zeta", "cpu.acme", "cpu.native")
    assert "0 problems, 0 notes" in report
    assert f"loaded with its backend, no. 3 of 3 packs, {because}" in report
    assert "Exp unary x cpu (zeta, acme, native)" in output("kernels", "Exp", "--backend", "cpu")
    found = json.loads(output("kernels", "Exp", "--backend", "cpu", "--json"))
    assert found["kernels"]["Exp"]["packs"] == {
        "cpu": ["zeta-exp::cpu.zeta", "acme-exp::cpu.acme", "plugrad-native::cpu.native"]
    }
    unasked = output("doctor", "cpu", "cpu.acme", order="")
    assert "0 problems, 1 note" in unasked
    assert "kernel pack 'cpu.acme' (acme-exp 1.2) replaces what others have registered" in unasked
    assert "choose it with PLUGRAD_PACKS=acme, or switch it off with" in unasked
    assert "by the names of the distributions" in output("list", order="")
    assert "order cpu: zeta, acme, native" in output("config", "--explain")


def test_doctor_notes_a_name_that_no_pack_has(site, run_cli):
    site.install("toy")
    site.install_pack("kernels", "toy.acme", PACK, distribution="toy-acme", target=":register")
    plugrad.config.set("packs", "acne")
    printed = " ".join(run_cli("doctor")[1].split())
    assert (
        "the setting packs names 'acne', which no installed plugin has (did you mean 'acme'?)"
        in (printed)
    )
