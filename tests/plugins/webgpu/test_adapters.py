"""Which adapter a device string means, on machines with several."""

from types import SimpleNamespace

import pytest

import plugrad
from plugrad.extend import BackendUnavailable

adapters = pytest.importorskip("plugrad_webgpu.device.adapters")

DISCRETE = ("NVIDIA GeForce RTX 4090", "DiscreteGPU")
INTEGRATED = ("Intel Iris Xe", "IntegratedGPU")
SOFTWARE = ("llvmpipe", "CPU")


@pytest.mark.parametrize(
    ("present", "selector", "chosen"),
    [
        ((DISCRETE, INTEGRATED, SOFTWARE), "", 0),
        ((DISCRETE, INTEGRATED, SOFTWARE), "1", 1),
        ((DISCRETE, INTEGRATED, SOFTWARE), "high-performance", 0),
        ((DISCRETE, INTEGRATED, SOFTWARE), "low-power", 1),
        ((DISCRETE, INTEGRATED, SOFTWARE), "name=rtx", 0),
        ((DISCRETE, INTEGRATED, SOFTWARE), "name=Iris", 1),
        ((INTEGRATED, SOFTWARE), "high-performance", 0),
        ((DISCRETE, SOFTWARE), "low-power", 0),
        ((SOFTWARE,), "high-performance", 0),
    ],
)
def test_device_string_chooses(monkeypatch, present, selector, chosen):
    found = tuple(
        SimpleNamespace(info={"device": device, "adapter_type": kind}) for device, kind in present
    )
    monkeypatch.setattr(adapters, "adapters", lambda: found)
    assert adapters.choose(selector) == (found[chosen], chosen)


@pytest.mark.parametrize("selector", ["7", "name=radeon", "fastest"])
def test_unknown_device_lists_the_devices(monkeypatch, selector):
    found = (SimpleNamespace(info={"device": "llvmpipe", "adapter_type": "CPU"}),)
    monkeypatch.setattr(adapters, "adapters", lambda: found)
    with pytest.raises(
        BackendUnavailable,
        match=rf"no device '{selector}'; choose one of 0 \(llvmpipe\), high-performance, low-power",
    ):
        adapters.choose(selector)


@pytest.mark.parametrize("selector", ["0", "high-performance", "low-power", "name="])
def test_device_strings_select_adapters_of_this_machine(run, selector):
    adapter, index = adapters.choose(selector)
    if selector == "name=":
        selector += adapter.info["device"][:5].upper()
    with plugrad.use(f"webgpu:{selector}"):
        x = plugrad.ones(3) * 2
        assert x.device == f"webgpu:{index}"
        assert x.numpy().tolist() == [2, 2, 2]


def test_a_device_that_this_machine_does_not_have(run):
    count = len(adapters.adapters())
    with pytest.raises(BackendUnavailable, match=rf"no device '{count}'; choose one of 0 "):
        plugrad.ones(3, device=f"webgpu:{count}")
