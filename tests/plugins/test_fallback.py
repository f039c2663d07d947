"""A kernel that the backend at hand lacks: the error that says who has it, or another backend computes it."""

import warnings

import numpy as np
import pytest

import plugrad
from plugrad.discovery import fallback
from plugrad.errors import ConfigError, KernelNotFound, UnsupportedDtype
from plugrad.kernels import creation
from plugrad.registry.transaction import snapshot_registries

MISSING_KERNELS = (
    *("Cumsum", "Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"),
    *("CropAndResize", "CropAndResizeGradImage", "CropAndResizeGradBoxes"),
    *("Unique", "TopK"),
)


@pytest.fixture
def set_policy(site, monkeypatch):
    """A function that sets the fallback policy for one test and resets the counts; only cpu is first-party."""
    monkeypatch.setattr(
        "plugrad.discovery.selection.first_party_distributions", lambda: frozenset({"plugrad-cpu"})
    )
    plugrad.fallback_report(clear=True)

    def choose(value, order=""):
        plugrad.config.set("fallback", value)
        plugrad.config.set("fallback_order", order)

    yield choose
    plugrad.fallback_report(clear=True)


@pytest.fixture
def remove_kernels(set_policy):
    """A function that removes kernels from a backend until the test ends."""
    restore = snapshot_registries()

    def take(backend, *names):
        for name in names:
            while plugrad.get_kernel(name, backend):  # a pack may lie over the backend
                plugrad.unregister_kernel(name, backend)

    yield take
    restore()


@pytest.fixture
def backend_lacking_kernels(backend, remove_kernels, set_policy):
    """The name of a backend that lacks the kernels above and falls back to cpu for them."""
    if backend == "cpu":
        pytest.skip("cpu is where the others fall back to")
    remove_kernels(backend, *MISSING_KERNELS)
    set_policy("silent", "cpu")
    plugrad.use(backend)
    return backend


# --- values and gradients -------------------------------------------------------------------------


def cumsum(x):
    return plugrad.cumulative_sum(x * x, axis=1)


def conv3d(x, filters):
    return plugrad.conv3d(x * x, filters, 1, "same")


def crop_and_resize(images, boxes):
    indices = plugrad.asarray([0, 0], dtype="int32", device=images.device)
    return plugrad.image.crop_and_resize(images * images, boxes, indices, (3, 3))


FUNCTIONS_BY_KERNEL = {
    "Cumsum": (cumsum, [(2, 5)]),
    "Conv3D": (conv3d, [(1, 3, 4, 2, 2), (2, 2, 2, 2, 3)]),
    "CropAndResize": (crop_and_resize, [(1, 5, 5, 2), (2, 4)]),
}


@pytest.mark.parametrize(("f", "shapes"), FUNCTIONS_BY_KERNEL.values(), ids=FUNCTIONS_BY_KERNEL)
def test_values_and_gradients_to_second_order_match_cpu(backend_lacking_kernels, f, shapes, rng):
    values = [rng.uniform(0.1, 0.9, shape).astype(np.float32) for shape in shapes]

    def total(*args):
        y = f(*args)
        return plugrad.sum(y * y)

    def steepness(*args):
        gradients = plugrad.grads(total)(*args)
        return plugrad.sum(plugrad.stack([plugrad.sum(g * g) for g in gradients]))

    def computed(device):
        args = [plugrad.asarray(v, device=device) for v in values]
        with plugrad.use(device):
            return [f(*args), *plugrad.grads(total)(*args), *plugrad.grads(steepness)(*args)]

    for ours, theirs in zip(computed(backend_lacking_kernels), computed("cpu"), strict=True):
        assert ours.backend.name == backend_lacking_kernels
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-4, atol=2e-4)
    assert {entry[:3] for entry in plugrad.fallback_report()} <= {
        (name, backend_lacking_kernels, "cpu") for name in MISSING_KERNELS
    }
    assert plugrad.fallback_report() != []


def test_several_results_come_back(backend_lacking_kernels):
    values, indices = plugrad.top_k(plugrad.asarray([3.0, 1.0, 2.0]), 2)
    assert (values.tolist(), indices.tolist()) == ([3.0, 2.0], [0, 2])
    assert values.backend.name == indices.backend.name == backend_lacking_kernels


def test_shapes_that_only_the_values_tell_come_back(backend_lacking_kernels):
    unique = plugrad.unique_values(plugrad.asarray([3.0, 1.0, 3.0]))
    assert (unique.tolist(), unique.backend.name) == ([1.0, 3.0], backend_lacking_kernels)


def test_broken_contract_is_the_contracts_error(backend_lacking_kernels):
    x = plugrad.asarray([1.0])
    with pytest.raises(plugrad.errors.ArgumentError, match="Cumsum: unknown attributes"):
        plugrad.run_kernel("Cumsum", {"x": x}, {"axes": 0})


def test_kernel_without_inputs_and_kernel_without_contract(site, remove_kernels, set_policy):
    site.install("toy")
    set_policy("silent")
    with plugrad.use("toy"):
        x = plugrad.full((2,), 7.0)
        assert (x.device, x.tolist()) == ("toy:0", [7.0, 7.0])
        plugrad.register_kernel(
            plugrad.KernelConfig("ThirdPower", "cpu", lambda x, *, by: x**3 + by)
        )
        y = plugrad.run_kernel("ThirdPower", {"x": x}, {"by": 1})
        assert (y.device, y.tolist()) == ("toy:0", [344.0, 344.0])
    assert {e.kernel for e in plugrad.fallback_report()} >= {creation.fill.name, "ThirdPower"}


def test_host_implementation_of_the_other_backend_is_used(site, set_policy):
    site.install("toy")
    set_policy("silent")
    seen = []

    def on_host(x):
        seen.append(type(x))
        return x + 1

    config = plugrad.KernelConfig("Increment", "cpu", on_host, on_host=True)
    plugrad.register_kernel(config)
    x = plugrad.asarray([1.0], device="toy")
    assert plugrad.run_kernel("Increment", {"x": x}).tolist() == [2.0]
    assert seen == [np.ndarray]


# --- dtypes ---------------------------------------------------------------------------------------


def test_result_that_the_backend_cannot_store_is_an_error(site, set_policy):
    site.install("toy")
    set_policy("silent")
    x = plugrad.asarray([1.0], device="toy")
    with pytest.raises(
        UnsupportedDtype,
        match=r"Greater fell back from 'toy' to 'cpu', but its result is bool, .* as in x.to\('cpu'\)",
    ):
        plugrad.run_kernel("Greater", {"a": x, "b": x})


def test_complex_numbers_of_double_precision_are_refused_before_anything_falls_back(
    backend_lacking_kernels,
):
    if plugrad.complex128 in plugrad.which().backend.dtypes():
        pytest.skip(f"{backend_lacking_kernels} has complex128")
    with pytest.raises(UnsupportedDtype, match="complex128"):
        plugrad.astype(plugrad.asarray([1.0, 2.0]), "complex128")
    assert plugrad.fallback_report() == []


def test_backend_without_the_dtype_is_passed_over(site, remove_kernels, set_policy):
    site.install("toy")
    remove_kernels("cpu", "Exp")
    set_policy("silent", "toy")
    with pytest.raises(
        KernelNotFound, match="No other backend computes it: 'toy' does not have float64"
    ):
        plugrad.exp(plugrad.asarray(np.zeros(1)))
    assert plugrad.exp(plugrad.zeros(1)).tolist() == [1.0]


# --- the policy -----------------------------------------------------------------------------------

NO_BACKEND_MESSAGE = "No other backend computes it: "
POLICIES_AND_REMEDIES = {  # fallback, fallback_order, who computes Log for toy, or why nobody does
    "the default": (None, None, 'set\\("fallback", "warn"\\)'),
    "error": ("error", "cpu", 'set\\("fallback", "warn"\\)'),
    "warn": ("warn", "", "cpu"),
    "silent": ("silent", "", "cpu"),
    "one by name": ("silent", "cpu", "cpu"),
    "a device": ("silent", "cpu:0", "cpu"),
    "a qualified name": ("silent", "plugrad-cpu::cpu", "cpu"),
    "the first that has it": ("silent", "other_toy,cpu", "cpu"),
    "not installed": ("silent", "nowhere,cpu", "cpu"),
    "nobody in the order": (
        "silent",
        "other_toy",
        f"{NO_BACKEND_MESSAGE}'other_toy' does not implement it",
    ),
    "not installed at all": (
        "silent",
        "nowhere",
        f"{NO_BACKEND_MESSAGE}no installed plugin .* 'nowhere'",
    ),
    "itself": ("silent", "toy", f"{NO_BACKEND_MESSAGE}there is no other backend"),
    "a broken one": (
        "silent",
        "broken",
        f"{NO_BACKEND_MESSAGE}.*'broken' .*cannot start: ZeroDivisionError",
    ),
}


@pytest.mark.parametrize(
    ("value", "order", "expected"), POLICIES_AND_REMEDIES.values(), ids=POLICIES_AND_REMEDIES
)
def test_values_of_the_fallback_policy(site, set_policy, value, order, expected):
    site.install("toy")
    site.install("other_toy")
    site.install("broken", "1 / 0")
    if value is not None:
        set_policy(value, order)
    x = plugrad.asarray([1.0], device="toy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if value == "warn" else "error")
        if expected == "cpu":
            assert plugrad.log(x).device == "toy:0"
            assert [e[:4] for e in plugrad.fallback_report()] == [("Log", "toy", "cpu", 1)]
        else:
            with pytest.raises(KernelNotFound, match=expected):
                plugrad.log(x)
            assert plugrad.fallback_report() == []


@pytest.mark.parametrize("value", ["", "yes", "Warn", True, None])
def test_malformed_policy_is_refused(site, value):
    with pytest.raises(ConfigError, match=r"fallback=.*expected is 'error', 'warn' or 'silent'"):
        plugrad.config.set("fallback", value)


def test_fallback_order_without_a_backend_name_is_rejected(site, set_policy):
    site.install("toy")
    set_policy("silent", ":1")
    with pytest.raises(ConfigError, match=r"plugrad.config.set: ':1' does not name a backend"):
        plugrad.log(plugrad.asarray([1.0], device="toy"))


def test_third_partys_backend_must_be_allowed_or_named(site, set_policy, remove_kernels):
    site.install("toy")
    remove_kernels("cpu", "Exp")
    set_policy("silent")
    with pytest.raises(KernelNotFound, match="No other backend computes it"):
        plugrad.exp(plugrad.zeros(1))
    assert site.imported() == []
    plugrad.config.set("plugins.allow_auto", "acme-*")
    assert plugrad.exp(plugrad.zeros(1)).tolist() == [1.0]


def test_software_device_is_not_opened_by_itself(site, set_policy, remove_kernels, monkeypatch):
    source = site_source_with_software_device()
    site.install("toy", source)
    remove_kernels("cpu", "Exp")
    set_policy("silent")
    plugrad.config.set("plugins.allow_auto", "acme-*")
    with pytest.raises(KernelNotFound, match="'toy': it has only software devices"):
        plugrad.exp(plugrad.zeros(1))
    plugrad.zeros(1).to("toy")  # whoever has opened it wants it
    assert plugrad.exp(plugrad.zeros(1)).tolist() == [1.0]


def site_source_with_software_device():
    from plugins.hostile import backend_source

    return (
        backend_source("toy")
        .replace('"a toy")', '"a toy", True)')
        .replace('"another toy")', '"another toy", True)')
    )


# --- warnings and counts --------------------------------------------------------------------------


def test_first_fallback_of_a_kernel_warns_at_the_caller(site, set_policy):
    site.install("toy")
    set_policy("warn")
    x = plugrad.asarray([1.0, 2.0], device="toy")
    with pytest.warns(
        RuntimeWarning, match="'toy' does not implement kernel 'Log': 'cpu' computes it"
    ) as caught:
        plugrad.log(x)
    assert (len(caught), caught[0].filename) == (1, __file__)
    plugrad.log(x)  # a second warning would be an error
    with pytest.warns(RuntimeWarning, match="kernel 'Sqrt'"):
        plugrad.sqrt(x)
    plugrad.fallback_report(clear=True)
    with pytest.warns(RuntimeWarning, match="kernel 'Log'"):
        plugrad.log(x)


def test_report_counts_calls_bytes_and_time(site, set_policy):
    site.install("toy")
    set_policy("silent")
    x = plugrad.asarray(np.ones(1000, np.float32), device="toy")
    for _ in range(3):
        plugrad.log(x)
    plugrad.sqrt(x)
    report = {e.kernel: e for e in plugrad.fallback_report()}
    assert (report["Log"].calls, report["Log"].bytes) == (3, 3 * 8000)
    assert (report["Sqrt"].calls, report["Sqrt"].bytes) == (1, 8000)
    assert all(0 < e.milliseconds < 10_000 for e in report.values())
    times = [e.milliseconds for e in plugrad.fallback_report(clear=True)]
    assert times == sorted(times, reverse=True)
    assert plugrad.fallback_report() == []


def test_implemented_kernels_skip_the_fallback(site, set_policy, monkeypatch):
    site.install("toy")
    set_policy("silent")
    x = plugrad.asarray([1.0], device="toy")
    plugrad.exp(x)  # the first call of a kernel looks it up
    with monkeypatch.context() as patch:
        patch.setattr(fallback, "fallback_implementation", None)
        patch.setattr(plugrad.config, "explain", None)
        assert plugrad.exp(x).device == "toy:0"


# --- the error ------------------------------------------------------------------------------------


def test_error_lists_loaded_and_unloaded_backends_with_the_kernel(site):
    site.install("toy")
    manifest = 'api = "1.0"\nkernels = ["ThirdPower"]\n'
    site.install("promising", manifest=manifest)
    site.install("disabled", manifest=manifest)
    plugrad.config.set("plugins.disable", "disabled")
    plugrad.register_kernel(plugrad.KernelConfig("ThirdPower", "cpu", lambda x: x**3))
    x = plugrad.asarray([1.0], device="toy")
    with pytest.raises(
        KernelNotFound,
        match=r"^backend 'toy' does not implement kernel 'ThirdPower'; 'cpu' does, and 'promising' would, if loaded. "
        r"Move the inputs, as in x.to\('cpu'\), let another backend compute it with "
        r'plugrad.config.set\("fallback", "warn"\), or register an implementation with register_kernel$',
    ) as caught:
        plugrad.run_kernel("ThirdPower", {"x": x})
    assert caught.value.kernel_name == "ThirdPower"
    assert site.imported() == ["acme_toy"]


def test_error_for_a_kernel_that_no_backend_has(site, set_policy):
    lonely = plugrad.extend.kernel("Lonely", family="test")(lambda x: x)
    with pytest.raises(
        KernelNotFound, match="'cpu' does not implement kernel 'Lonely', nor does any other"
    ):
        lonely(plugrad.zeros(1))
    set_policy("silent", "cpu")
    with pytest.raises(
        KernelNotFound, match="No other backend computes it: there is no other backend"
    ):
        lonely(plugrad.zeros(1))


def test_unknown_kernel_name_suggests_the_nearest(site):
    with pytest.raises(KernelNotFound, match=r"no kernel is called 'Sine' \(did you mean 'Sin'"):
        plugrad.run_kernel("Sine", {"x": plugrad.zeros(1)})


def test_first_party_backends_that_are_not_loaded_are_known_to_have_a_kernel(site):
    names = {b.name for b in fallback.backends_with_kernel("Exp")}
    installed = {b.name for b in plugrad.backends() if b.status in ("available", "active")}
    assert names == installed


def test_kernel_registered_for_a_backend_that_is_not_open_is_found(site, set_policy):
    site.install("toy")
    set_policy("silent")
    for backend in fallback.opened_backends():
        if backend.name == "cpu":
            plugrad.close_backend(backend)
    config = plugrad.KernelConfig("NeverSeen", "cpu", lambda x: x * 7)
    plugrad.register_kernel(config)
    try:
        assert [b.name for b in fallback.backends_with_kernel("NeverSeen")] == ["cpu"]
        with plugrad.use("toy"):
            found = plugrad.run_kernel("NeverSeen", {"x": plugrad.asarray([2.0])})
        assert (found.tolist(), found.device) == ([14.0], "toy:0")
    finally:
        plugrad.unregister_kernel("NeverSeen", "cpu")
