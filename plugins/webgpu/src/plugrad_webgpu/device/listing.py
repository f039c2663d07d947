"""The adapters of the machine, as wgpu-native lists them, without wgpu-py.

Every program that chooses its backend automatically asks for them. To import wgpu-py takes 300 ms of CPU time, most
of it to parse the header with all C types; to ask its library with the few types of this module takes 25.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from contextlib import contextmanager
from ctypes import byref
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from plugrad.extend import DeviceInfo

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping

INSTALL_HINT: Final = (
    "install a Vulkan driver (on Debian: mesa-vulkan-drivers, which also brings a software device), "
    "or use the cpu backend"
)
"""The remedy in errors for machines without a usable adapter."""
REQUIRED_FEATURE: Final = "immediates"
"""The feature that the kernels need: their parameters are immediates."""
SUPPORTED_WGPU_VERSION: Final = (0, 32)
"""The version of wgpu-py whose library this module calls, and whose private parts `native` and `parsing` use."""


class Adapter(Protocol):
    """The properties of an adapter that are needed before it is opened."""

    @property
    def info(self) -> Mapping[str, Any]:
        """The name, type and API of the adapter, under wgpu-py's keys."""
        ...

    @property
    def features(self) -> Collection[str]:
        """The names of the adapter's features."""
        ...


AnyAdapter = TypeVar("AnyAdapter", bound=Adapter)
"""An adapter of wgpu-py, or one that `list_adapters` returns."""


def select_usable_adapters(adapters: Iterable[AnyAdapter]) -> tuple[AnyAdapter, ...]:
    """Return the adapters that the kernels can use, GPUs before software devices."""
    found = [
        a
        for a in adapters
        if REQUIRED_FEATURE in a.features and a.info["backend_type"] in ("Vulkan", "Metal", "D3D12")
    ]
    found.sort(key=lambda a: (is_software_adapter(a), a.info["adapter_type"] != "DiscreteGPU"))
    return tuple(found)


def is_software_adapter(adapter: Adapter) -> bool:
    """Return whether the adapter computes on the CPU."""
    return adapter.info["adapter_type"] == "CPU"


def describe_adapter(adapter: Adapter, index: int) -> DeviceInfo:
    """Return the adapter as a plugrad device."""
    info = adapter.info
    description = f"{info['device']} ({info['adapter_type']}, {info['backend_type']})"
    return DeviceInfo(str(index), description, is_software_adapter(adapter))


@contextmanager
def suppress_wayland_warning() -> Generator[None, None, None]:
    """Set a directory for Wayland sockets within the block if none is set.

    Without one, drivers that look for a Wayland display write errors to the terminal, although
    nothing here shows a window.
    """
    if "XDG_RUNTIME_DIR" in os.environ:
        yield
        return
    os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        del os.environ["XDG_RUNTIME_DIR"]


@cache
def list_adapters() -> tuple[Adapter, ...] | None:
    """Return the usable adapters, or None if only wgpu-py can list them.

    Raises:
        OSError: the library does not load.
    """
    library = _find_library()
    if library is None:
        return None
    with suppress_wayland_warning():
        return select_usable_adapters(_enumerate_adapters(ctypes.CDLL(str(library))))


WGPU_LIBRARY_NAME: Final = {
    "win32": "wgpu_native-release.dll",
    "darwin": "libwgpu_native-release.dylib",
}.get(sys.platform, "libwgpu_native-release.so")
"""The file name of wgpu-native's library in the package of wgpu-py."""


def _find_library() -> Path | None:
    """Return the path of the library that wgpu-py would load, or None if it cannot be found without wgpu-py."""
    try:
        known = version("wgpu").startswith("{}.{}.".format(*SUPPORTED_WGPU_VERSION))
    except PackageNotFoundError:
        known = False
    spec = find_spec("wgpu") if known else None
    is_chosen = "WGPU_LIB_PATH" in os.environ or "WGPU_DEBUG" in os.environ
    if spec is None or spec.origin is None or is_chosen:
        return None
    path = Path(spec.origin).parent / "resources" / WGPU_LIBRARY_NAME
    return path if path.exists() else None


# --- the types and the numbers of wgpu-native's header ---------------------------------------------

_IMMEDIATES_FEATURE: Final = 0x00030001
"""wgpu-native's number of the feature "immediates"."""
_ADAPTER_TYPES: Final = {1: "DiscreteGPU", 2: "IntegratedGPU", 3: "CPU"}
"""The names of adapter types by WebGPU's numbers."""
_BACKEND_TYPES: Final = {4: "D3D12", 5: "Metal", 6: "Vulkan"}
"""The names of graphics APIs by WebGPU's numbers."""
_NATIVE_BACKENDS_MASK: Final = 1 << 0 | 1 << 2 | 1 << 3
"""The bits of Vulkan, Metal and D3D12; OpenGL would list every device again, slower and with lower limits."""
_INSTANCE_EXTRAS_TYPE: Final = 0x00030004
"""wgpu-native's type number of the struct WGPUInstanceExtras."""


class _InstanceExtrasStruct(ctypes.Structure):
    """wgpu-native's C struct WGPUInstanceExtras."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("type", ctypes.c_uint32),
        ("backends", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 32),  # more than there are, and zero, which is the default
    )


class _InstanceDescriptorStruct(ctypes.Structure):
    """The C struct WGPUInstanceDescriptor."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("feature_count", ctypes.c_size_t),
        ("features", ctypes.c_void_p),
        ("limits", ctypes.c_void_p),
    )


class _StringViewStruct(ctypes.Structure):
    """The C struct WGPUStringView: a text and its length."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _AdapterInfoStruct(ctypes.Structure):
    """The C struct WGPUAdapterInfo."""

    _fields_ = (
        ("next", ctypes.c_void_p),
        ("vendor", _StringViewStruct),
        ("architecture", _StringViewStruct),
        ("device", _StringViewStruct),
        ("description", _StringViewStruct),
        ("backend_type", ctypes.c_uint32),
        ("adapter_type", ctypes.c_uint32),
        ("vendor_and_device", ctypes.c_uint32 * 2),
        ("subgroup_sizes", ctypes.c_uint32 * 2),
    )


class ListedAdapter(NamedTuple):
    """The properties that an adapter has reported."""

    info: Mapping[str, Any]
    """The name, type and API of the adapter, under wgpu-py's keys."""
    features: Collection[str]
    """The names of the adapter's features."""


def _enumerate_adapters(library: ctypes.CDLL) -> list[ListedAdapter]:
    """Return all adapters that the loaded library of wgpu-native lists; nothing is kept open."""
    create, release = library.wgpuCreateInstance, library.wgpuInstanceRelease
    enumerate_adapters = library.wgpuInstanceEnumerateAdapters
    create.restype, enumerate_adapters.restype = ctypes.c_void_p, ctypes.c_size_t
    extras = _InstanceExtrasStruct(type=_INSTANCE_EXTRAS_TYPE, backends=_NATIVE_BACKENDS_MASK)
    descriptor = _InstanceDescriptorStruct(next=ctypes.addressof(extras))
    instance = ctypes.c_void_p(create(byref(descriptor)))
    try:
        handles = (ctypes.c_void_p * enumerate_adapters(instance, None, None))()
        enumerate_adapters(instance, None, handles)
        return [_query_and_release_adapter(library, ctypes.c_void_p(handle)) for handle in handles]
    finally:
        release(instance)


def _query_and_release_adapter(library: ctypes.CDLL, handle: ctypes.c_void_p) -> ListedAdapter:
    """Return the properties of the adapter with a handle of the loaded library, and release it."""
    info = _AdapterInfoStruct()
    try:
        library.wgpuAdapterGetInfo(handle, byref(info))
        name = ctypes.string_at(info.device.data, info.device.length).decode(errors="replace")
        library.wgpuAdapterInfoFreeMembers(info)
        has_feature = library.wgpuAdapterHasFeature(handle, _IMMEDIATES_FEATURE)
    finally:
        library.wgpuAdapterRelease(handle)
    told = {
        "device": name,
        "adapter_type": _ADAPTER_TYPES.get(info.adapter_type, "Unknown"),
        "backend_type": _BACKEND_TYPES.get(info.backend_type, "other"),
    }
    return ListedAdapter(told, {REQUIRED_FEATURE} if has_feature else set())
