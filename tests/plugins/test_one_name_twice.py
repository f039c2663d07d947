"""Two distributions bring a backend of one name: everything works on the one that is named in full."""

import copy
import json
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import plugrad
from plugins.hostile import MANIFEST
from plugrad.discovery.listing import declared_options
from plugrad.errors import PluginConflict

TWIN_BACKEND_SOURCE = """
    from plugrad_cpu.device import Cpu

    class Twin(Cpu):
        name = "twin"

        def open(self, device):
            return [config._replace(backend_name="twin") for config in super().open(device)]

    def backend():
        return Twin()
"""


@pytest.fixture
def twin_backend_name(site):
    """The full name of one of two backends called twin, which is active during the test."""
    for distribution in ("acme-first", "acme-second"):
        site.install("twin", textwrap.dedent(TWIN_BACKEND_SOURCE), distribution=distribution)
    with pytest.raises(PluginConflict, match="acme-first::twin"):
        plugrad.use("twin")
    with plugrad.use("acme-second::twin"):
        yield "acme-second::twin"


def sum_of_squares(x):
    return plugrad.sum(x * x * 2.0)


CALLS_BY_KIND = {
    "creation": lambda x: plugrad.zeros_like(x) + plugrad.eye(2) + plugrad.full_like(x, 3),
    "to": lambda x: x.to(x.backend),
    "transfer": lambda x: plugrad.to_device(x, "acme-second::twin"),
    "grad": plugrad.grad(lambda x: plugrad.sum(sum_of_squares(x))),
    "grad with dy": lambda x: plugrad.grad(lambda x: x * x)(x, dy=plugrad.ones_like(x)),
    "grad with a dy of NumPy": lambda x: plugrad.grad(lambda x: x * x)(x, dy=np.ones((2, 2))),
    "jacobian": plugrad.jacobian(lambda x: plugrad.sum(x, axis=0)),
    "hessian": plugrad.hessian(sum_of_squares),
    "jvp": lambda x: plugrad.jvp(sum_of_squares, (x,), (np.ones((2, 2), "float32"),))[1],
    "dropout": lambda x: plugrad.dropout(x, 0.5, seed=3),
    "indexing": lambda x: x[[1, 0], 0],
    "det": plugrad.linalg.det,
    "matrix power": lambda x: plugrad.linalg.matrix_power(x, 0),
    "deep copy": copy.deepcopy,
    "copy": copy.copy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


@pytest.mark.parametrize("call", CALLS_BY_KIND.values(), ids=CALLS_BY_KIND)
def test_ops_and_derivatives(call, twin_backend_name):
    x = plugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    result = call(x)
    assert result.backend is x.backend
    assert result.backend.distribution == "acme-second"
    if call is CALLS_BY_KIND["transfer"]:
        assert result.array is x.array
        return
    with plugrad.use("cpu"):
        expected = call(plugrad.asarray([[1.0, 2.0], [3.0, 4.0]]))
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-6)


def test_variables_and_optimizers(twin_backend_name):
    w = plugrad.Variable([1.0, 2.0], name="w")
    w.assign([3.0, 4.0])
    w.assign(w * 2.0)
    assert w.tolist() == [6, 8]
    for optimizer in (plugrad.optimizers.SGD(0.1), plugrad.optimizers.Adam(0.1)):
        before = w.tolist()
        optimizer.minimize(lambda: plugrad.sum(plugrad.square(w)), [w])
        assert w.backend.distribution == "acme-second"
        assert np.all(w.numpy() < before)
    again = pickle.loads(pickle.dumps(w))
    assert (again.backend, again.name, again.tolist()) == (w.backend, "w", w.tolist())
    assert copy.deepcopy(w).backend is w.backend


# --- the name of a backend that belongs to plugrad's authors --------------------------------------

CPU_CLAIMING_SOURCE = (
    textwrap.dedent(TWIN_BACKEND_SOURCE).replace("twin", "cpu").replace("Twin", "Claim")
)


@pytest.fixture
def claiming_distribution(site):
    """A distribution whose backend is also called cpu and has the highest priority."""
    site.install(
        "cpu",
        CPU_CLAIMING_SOURCE,
        distribution="acme-cpu",
        manifest=MANIFEST.replace("5", "5000", 1),
    )
    return site


def run_program(site, source, **variables):
    """Run a program with the distribution installed; return its JSON output and the standard error."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
    done = subprocess.run(
        [sys.executable, "-c", "import json, plugrad\n" + textwrap.dedent(source)],
        env=inherited | {"PYTHONPATH": str(site.folder), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


PRINT_BACKEND_PROGRAM = """
x = plugrad.asarray([1.0])
plugrad.zeros(1, device="cpu")
print(json.dumps([x.backend.name, x.backend.distribution]))
"""


def test_first_party_backend_keeps_its_claimed_name(claiming_distribution):
    others = {"PLUGRAD_PLUGINS_DISABLE": "webgpu,wasm", "PLUGRAD_PLUGINS_ALLOW_AUTO": "acme-*"}
    for variables in (others, {"PLUGRAD_BACKEND": "cpu"}):
        who, warned = run_program(claiming_distribution, PRINT_BACKEND_PROGRAM, **variables)
        assert who == ["cpu", "plugrad-cpu"]
        assert warned.count("RuntimeWarning") == 1
        assert (
            "'cpu' (acme-cpu 1.2) is conflict, and 'cpu' stays the backend of plugrad-cpu" in warned
        )
        assert "PLUGRAD_PLUGINS_DISABLE=acme-cpu::cpu" in warned
    off = {"PLUGRAD_PLUGINS_DISABLE": "acme-cpu::cpu", "PLUGRAD_BACKEND": "cpu"}
    assert run_program(claiming_distribution, PRINT_BACKEND_PROGRAM, **off) == (
        ["cpu", "plugrad-cpu"],
        "",
    )


def test_second_backend_of_a_name_is_chosen_by_its_full_name(claiming_distribution):
    source = """
    x = plugrad.asarray([1.0, 2.0])
    import pickle
    again = pickle.loads(pickle.dumps(x))
    print(json.dumps([x.backend.distribution, (x + x).tolist(), again.backend.distribution]))
    """
    who, warned = run_program(claiming_distribution, source, PLUGRAD_BACKEND="acme-cpu::cpu")
    assert (who, warned) == (["acme-cpu", [2, 4], "acme-cpu"], "")


def test_claim_of_a_taken_backend_name_is_reported(claiming_distribution, run_cli):
    statuses = {b.distribution: b.status for b in plugrad.backends() if b.name == "cpu"}
    assert statuses == {"acme-cpu": "conflict", "plugrad-cpu": "active"}
    status, printed, _ = run_cli("list", "--json")
    (listed,) = [p for p in json.loads(printed) if p["distribution"] == "acme-cpu"]
    assert (status, listed["status"]) == (0, "conflict")
    assert "plugrad-cpu also brings a backend called 'cpu'" in listed["reason"]
    assert "acme-cpu::cpu" in listed["reason"]
    assert "threads" in (declared_options()["cpu"] or {})  # those of its owner
