"""The C types that are parsed at once are those that cffi parses one by one."""

import pytest
import wgpu
from wgpu.backends import wgpu_native

from plugrad_webgpu.device.adapters import SUPPORTED_WGPU_VERSION
from plugrad_webgpu.driver.parsing import C_TYPES, cache_parsed_types

pytestmark = pytest.mark.skipif(
    wgpu.version_info[:2] != SUPPORTED_WGPU_VERSION,
    reason="the types are those of another version of wgpu-py",
)


def test_types_match_cffi():
    ffi = wgpu_native.ffi
    cache_parsed_types()
    for text in C_TYPES:
        type_, is_function = ffi._parsed_types[text]
        unparsed = text.replace("void(", "void(*)(", 1) if is_function else text
        assert type_ is ffi.typeof(f" {unparsed}")  # with a space in front, cffi does not know it
