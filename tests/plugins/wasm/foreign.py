"""Foreign modules: in text form, and large ones in binary form."""


def module_text(body, *, memory='(memory (export "memory") 1)', version=1, more=""):
    """Return a wasm module in text form, given the body of its kernel."""
    return f"""
(module
  {memory}
  {more}
  (func (export "plugrad_abi_version") (result i32) (i32.const {version}))
  (func (export "kernel") (param $call i32) (result i32) {body}))
"""


ENDLESS_LOOP_BODY = "(loop $again (br $again)) (i32.const 0)"


def encode_uleb128(value):
    """Return an unsigned integer as WebAssembly's binary format has it (core specification, 5.2.2)."""
    low = bytes([value & 0x7F])
    return low if value < 0x80 else bytes([value & 0x7F | 0x80]) + encode_uleb128(value >> 7)


def large_module(size):
    """Return a binary module of about `size` bytes with one large function, which takes long to compile."""

    def section(number, *items):
        body = encode_uleb128(len(items)) + b"".join(items)
        return bytes([number]) + encode_uleb128(len(body)) + body

    def function(code):
        body = b"\0" + code + b"\x0b"
        return encode_uleb128(len(body)) + body

    # x = x * 3 + the number at 0, again and again
    step = bytes.fromhex("2000 4103 6c 4100 280200 6a 2100")
    exports = [(b"memory", 2, 0), (b"plugrad_abi_version", 0, 0), (b"kernel", 0, 1)]
    return b"".join(
        [
            b"\0asm\1\0\0\0",
            section(1, b"\x60\0\1\x7f", b"\x60\1\x7f\1\x7f"),
            section(3, b"\0", b"\1"),
            section(5, b"\0\1"),
            section(7, *(encode_uleb128(len(n)) + n + bytes([kind, i]) for n, kind, i in exports)),
            section(10, function(b"\x41\1"), function(step * (size // len(step)) + b"\x41\0")),
        ]
    )
