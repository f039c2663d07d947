"""FarmHash's Fingerprint64, which is the same on every machine and in every version (Geoff Pike, 2014).

Python's integers have no fixed size, so ``& MASK`` stands for arithmetic modulo ``2**64``.
"""

UINT64_MASK = (1 << 64) - 1
"""The bits of an unsigned 64-bit integer."""
FARMHASH_CONSTANT_0, FARMHASH_CONSTANT_1, FARMHASH_CONSTANT_2 = (
    0xC3A5C85C97CB3127,
    0xB492B66FBE98F273,
    0x9AE16A3B2F90404F,
)
"""The three 64-bit primes of FarmHash."""


def fingerprint64(text: bytes) -> int:
    """Return the fingerprint of a text, given as bytes.

    >>> fingerprint64(b"hello") % 1000, fingerprint64(b"a") % 1000
    (296, 939)
    """
    size = len(text)
    if size <= 16:
        return _hash_up_to_16_bytes(text)
    if size <= 32:
        return _hash_up_to_32_bytes(text)
    return _hash_up_to_64_bytes(text) if size <= 64 else _hash_long(text)


def _read_word(text: bytes, start: int, byte_count: int = 8) -> int:
    """Return the integer of some bytes of a text, the lowest byte first."""
    return int.from_bytes(text[start : start + byte_count], "little")


def _rotate_right(x: int, bit_count: int) -> int:
    """Return 64 bits rotated to the right."""
    x &= UINT64_MASK
    return (x >> bit_count | x << (64 - bit_count)) & UINT64_MASK


def _shift_mix(x: int) -> int:
    """Return 64 bits combined with their own upper bits by an exclusive or."""
    x &= UINT64_MASK
    return x ^ x >> 47


def _hash_pair(u: int, v: int, factor: int) -> int:
    """Return a hash of the integers u and v; the number `factor` mixes their bits."""
    a = _shift_mix((u ^ v) * factor)
    return _shift_mix((v ^ a) * factor) * factor & UINT64_MASK


def _hash_up_to_16_bytes(text: bytes) -> int:
    """Return the fingerprint of a text of up to 16 bytes."""
    size = len(text)
    factor = FARMHASH_CONSTANT_2 + size * 2
    if size >= 8:
        a, b = _read_word(text, 0) + FARMHASH_CONSTANT_2, _read_word(text, size - 8)
        c = _rotate_right(b, 37) * factor + a
        d = (_rotate_right(a, 25) + b) * factor
        return _hash_pair(c & UINT64_MASK, d & UINT64_MASK, factor)
    if size >= 4:
        return _hash_pair(
            size + (_read_word(text, 0, 4) << 3), _read_word(text, size - 4, 4), factor
        )
    if size:
        y = text[0] + (text[size >> 1] << 8)
        z = size + (text[-1] << 2)
        return (
            _shift_mix(y * FARMHASH_CONSTANT_2 ^ z * FARMHASH_CONSTANT_0) * FARMHASH_CONSTANT_2
            & UINT64_MASK
        )
    return FARMHASH_CONSTANT_2


def _hash_up_to_32_bytes(text: bytes) -> int:
    """Return the fingerprint of a text of 17 to 32 bytes."""
    size = len(text)
    factor = FARMHASH_CONSTANT_2 + size * 2
    a, b = _read_word(text, 0) * FARMHASH_CONSTANT_1, _read_word(text, 8)
    c, d = _read_word(text, size - 8) * factor, _read_word(text, size - 16) * FARMHASH_CONSTANT_2
    u = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d
    v = a + _rotate_right(b + FARMHASH_CONSTANT_2, 18) + c
    return _hash_pair(u & UINT64_MASK, v & UINT64_MASK, factor)


def _hash_up_to_64_bytes(text: bytes) -> int:
    """Return the fingerprint of a text of 33 to 64 bytes."""
    size = len(text)
    factor = FARMHASH_CONSTANT_2 + size * 2
    a, b = _read_word(text, 0) * FARMHASH_CONSTANT_2, _read_word(text, 8)
    c, d = _read_word(text, size - 8) * factor, _read_word(text, size - 16) * FARMHASH_CONSTANT_2
    y = _rotate_right(a + b, 43) + _rotate_right(c, 30) + d
    z = _hash_pair(
        y & UINT64_MASK, (a + _rotate_right(b + FARMHASH_CONSTANT_2, 18) + c) & UINT64_MASK, factor
    )
    e, f = _read_word(text, 16) * factor, _read_word(text, 24)
    g, h = (y + _read_word(text, size - 32)) * factor, (z + _read_word(text, size - 24)) * factor
    u = _rotate_right(e + f, 43) + _rotate_right(g, 30) + h
    v = e + _rotate_right(f + a, 18) + g
    return _hash_pair(u & UINT64_MASK, v & UINT64_MASK, factor)


def _hash_long(text: bytes) -> int:
    """Return the fingerprint of a text of more than 64 bytes."""
    size = len(text)
    x = 81 * FARMHASH_CONSTANT_2 + _read_word(text, 0)
    y = 81 * FARMHASH_CONSTANT_1 + 113
    z = _shift_mix(y * FARMHASH_CONSTANT_2 + 113) * FARMHASH_CONSTANT_2
    v = w = (0, 0)
    for start in range(0, (size - 1) // 64 * 64, 64):
        x, y, z, v, w = _hash_64_byte_block(text, start, (x, y, z), v, w, FARMHASH_CONSTANT_1, 1)
    factor = FARMHASH_CONSTANT_1 + ((z & 0xFF) << 1)
    w = w[0] + ((size - 1) & 63), w[1]
    v = v[0] + w[0], v[1]
    w = w[0] + v[0], w[1]
    x, y, z, v, w = _hash_64_byte_block(text, size - 64, (x, y, z), v, w, factor, 9)
    first = _hash_pair(v[0], w[0], factor) + _shift_mix(y) * FARMHASH_CONSTANT_0 + z
    second = _hash_pair(v[1], w[1], factor) + x
    return _hash_pair(first & UINT64_MASK, second & UINT64_MASK, factor)


Uint64Pair = tuple[int, int]
"""Two unsigned 64-bit integers."""


def _hash_64_byte_block(
    text: bytes,
    start: int,
    state: tuple[int, int, int],
    v: Uint64Pair,
    w: Uint64Pair,
    factor: int,
    weight: int,
) -> tuple[int, int, int, Uint64Pair, Uint64Pair]:
    """Return FarmHash's state (x, y, z, v, w) updated with the 64 bytes of a text from `start` on."""
    x, y, z = state
    x = _rotate_right(x + y + v[0] + _read_word(text, start + 8), 37) * factor
    y = _rotate_right(y + v[1] + _read_word(text, start + 48), 42) * factor
    x = (x & UINT64_MASK) ^ (w[1] * weight & UINT64_MASK)
    y += v[0] * weight + _read_word(text, start + 40)
    z = _rotate_right(z + w[0], 33) * factor & UINT64_MASK
    v = _weak_hash_32_bytes(text, start, v[1] * factor, x + w[0])
    w = _weak_hash_32_bytes(text, start + 32, z + w[1], y + _read_word(text, start + 16))
    return z, y & UINT64_MASK, x, v, w


def _weak_hash_32_bytes(text: bytes, start: int, a: int, b: int) -> Uint64Pair:
    """Return two hashes of 32 bytes of a text from `start` on, and of the seeds a and b."""
    first, second, third, fourth = (_read_word(text, start + 8 * i) for i in range(4))
    a += first
    b = _rotate_right(b + a + fourth, 21)
    c = a
    a += second + third
    b += _rotate_right(a, 44)
    return (a + fourth) & UINT64_MASK, (b + c) & UINT64_MASK
