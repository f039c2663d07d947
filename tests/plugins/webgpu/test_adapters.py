"""Which adapter a device string means, on machines with several."""

from types import SimpleNamespace

import pytest

from plugrad.extend import BackendUnavailable

adapters = pytest.importorskip("plugrad_webgpu.adapters")

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
