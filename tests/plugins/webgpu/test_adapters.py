"""The adapter that a device string selects on machines with several."""

from types import SimpleNamespace

import pytest

import plugrad
from plugins.running import run_command_in_new_process
from plugrad.extend import BackendUnavailable

wgpu = pytest.importorskip("wgpu")
adapters = pytest.importorskip("plugrad_webgpu.device.adapters")
listing = pytest.importorskip("plugrad_webgpu.device.listing")

DISCRETE_GPU = ("NVIDIA GeForce RTX 4090", "DiscreteGPU")
INTEGRATED_GPU = ("Intel Iris Xe", "IntegratedGPU")
SOFTWARE_ADAPTER = ("llvmpipe", "CPU")


@pytest.mark.parametrize(
    ("present", "selector", "chosen"),
    [
        ((DISCRETE_GPU, INTEGRATED_GPU, SOFTWARE_ADAPTER), "", 0),
        ((DISCRETE_GPU, INTEGRATED_GPU, SOFTWARE_ADAPTER), "1", 1),
        ((DISCRETE_GPU, INTEGRATED_GPU, SOFTWARE_ADAPTER), "high-performance", 0),
        ((DISCRETE_GPU, INTEGRATED_GPU, SOFTWARE_ADAPTER), "low-power", 1),
        ((DISCRETE_GPU, INTEGRATED_GPU, SOFTWARE_ADAPTER), "name=rtx", 0),
        ((DISCRETE_GPU, INTEGRATED_GPU, SOFTWARE_ADAPTER), "name=Iris", 1),
        ((INTEGRATED_GPU, SOFTWARE_ADAPTER), "high-performance", 0),
        ((DISCRETE_GPU, SOFTWARE_ADAPTER), "low-power", 0),
        ((SOFTWARE_ADAPTER,), "high-performance", 0),
    ],
)
def test_device_string_chooses(monkeypatch, present, selector, chosen):
    found = tuple(
        SimpleNamespace(info={"device": device, "adapter_type": kind}) for device, kind in present
    )
    monkeypatch.setattr(adapters, "list_usable_adapters", lambda: found)
    assert adapters.choose_adapter(selector) == (found[chosen], chosen)


@pytest.mark.parametrize("selector", ["7", "name=radeon", "fastest"])
def test_unknown_device_lists_the_devices(monkeypatch, selector):
    found = (SimpleNamespace(info={"device": "llvmpipe", "adapter_type": "CPU"}),)
    monkeypatch.setattr(adapters, "list_usable_adapters", lambda: found)
    with pytest.raises(
        BackendUnavailable,
        match=rf"no device '{selector}'; choose one of 0 \(llvmpipe\), high-performance, low-power",
    ):
        adapters.choose_adapter(selector)


@pytest.mark.parametrize("selector", ["0", "high-performance", "low-power", "name="])
def test_device_strings_select_adapters_of_this_machine(run, selector):
    adapter, index = adapters.choose_adapter(selector)
    if selector == "name=":
        selector += adapter.info["device"][:5].upper()
    with plugrad.use(f"webgpu:{selector}"):
        x = plugrad.ones(3) * 2
        assert x.device == f"webgpu:{index}"
        assert x.numpy().tolist() == [2, 2, 2]


def test_a_device_that_this_machine_does_not_have(run):
    count = len(adapters.list_usable_adapters())
    with pytest.raises(BackendUnavailable, match=rf"no device '{count}'; choose one of 0 "):
        plugrad.ones(3, device=f"webgpu:{count}")


def test_listed_adapters_match_wgpu():
    listed = [listing.describe_adapter(a, i) for i, a in enumerate(listing.list_adapters())]
    assert listed == [
        listing.describe_adapter(a, i) for i, a in enumerate(adapters.list_usable_adapters())
    ]
    assert listed


def test_adapters_with_another_version_of_wgpu(run, monkeypatch):
    devices = run.backend.probe().devices
    monkeypatch.setattr(listing, "SUPPORTED_WGPU_VERSION", (0, 0))
    listing.list_adapters.cache_clear()
    assert listing.list_adapters() is None
    assert run.backend.probe().devices == devices
    listing.list_adapters.cache_clear()


@pytest.mark.parametrize("variable", ["WGPU_LIB_PATH", "WGPU_DEBUG"])
def test_another_library_is_left_to_wgpu(monkeypatch, variable):
    assert (
        wgpu.version_info[:2] != listing.SUPPORTED_WGPU_VERSION or listing._find_library().exists()
    )
    monkeypatch.setenv(variable, "1")
    assert listing._find_library() is None


def test_adapters_without_required_features_are_left_out():
    def adapter(kind, api="Vulkan", features=("immediates",)):
        return SimpleNamespace(info={"adapter_type": kind, "backend_type": api}, features=features)

    software, integrated, discrete = map(adapter, ("CPU", "IntegratedGPU", "DiscreteGPU"))
    others = adapter("DiscreteGPU", "OpenGL"), adapter("DiscreteGPU", features=())
    found = listing.select_usable_adapters([software, integrated, *others, discrete])
    assert found == (discrete, integrated, software)


def test_choosing_a_backend_does_not_import_wgpu_py(run):
    if not run.device.is_software:
        pytest.skip("a GPU is the best backend here, so it is opened, with wgpu-py")
    program = """if True:
        import sys
        import plugrad
        (plugin,) = [p for p in plugrad.backends() if p.name == "webgpu"]
        plugrad.asarray([1.0]) + 1
        print(plugin.status, *[m for m in ("wgpu", "cffi") if m in sys.modules])
    """
    assert run_command_in_new_process(program=program).stdout == "available\n"
