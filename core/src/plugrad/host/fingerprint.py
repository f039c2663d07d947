"""FarmHash's Fingerprint64, which is the same on every machine and in every version (Geoff Pike, 2014).

Python's integers have no fixed size, so ``& MASK`` stands for arithmetic modulo ``2**64``.
"""

MASK = (1 << 64) - 1
K0, K1, K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def fingerprint64(text: bytes) -> int:
    """Return the fingerprint of bytes.

    >>> fingerprint64(b"hello") % 1000, fingerprint64(b"a") % 1000
    (296, 939)
    """
    size = len(text)
    if size <= 16:
        return _up_to_16(text)
    if size <= 32:
        return _up_to_32(text)
    return _up_to_64(text) if size <= 64 else _longer(text)


def _word(text: bytes, start: int, size: int = 8) -> int:
    return int.from_bytes(text[start : start + size], "little")


def _rotated(x: int, by: int) -> int:
    """Return 64 bits rotated to the right."""
    x &= MASK
    return (x >> by | x << (64 - by)) & MASK


def _mixed(x: int) -> int:
    x &= MASK
    return x ^ x >> 47


def _joined(u: int, v: int, factor: int) -> int:
    """Return a hash of two integers."""
    a = _mixed((u ^ v) * factor)
    return _mixed((v ^ a) * factor) * factor & MASK


def _up_to_16(text: bytes) -> int:
    size = len(text)
    factor = K2 + size * 2
    if size >= 8:
        a, b = _word(text, 0) + K2, _word(text, size - 8)
        c = _rotated(b, 37) * factor + a
        d = (_rotated(a, 25) + b) * factor
        return _joined(c & MASK, d & MASK, factor)
    if size >= 4:
        return _joined(size + (_word(text, 0, 4) << 3), _word(text, size - 4, 4), factor)
    if size:
        y = text[0] + (text[size >> 1] << 8)
        z = size + (text[-1] << 2)
        return _mixed(y * K2 ^ z * K0) * K2 & MASK
    return K2


def _up_to_32(text: bytes) -> int:
    size = len(text)
    factor = K2 + size * 2
    a, b = _word(text, 0) * K1, _word(text, 8)
    c, d = _word(text, size - 8) * factor, _word(text, size - 16) * K2
    u = _rotated(a + b, 43) + _rotated(c, 30) + d
    v = a + _rotated(b + K2, 18) + c
    return _joined(u & MASK, v & MASK, factor)


def _up_to_64(text: bytes) -> int:
    size = len(text)
    factor = K2 + size * 2
    a, b = _word(text, 0) * K2, _word(text, 8)
    c, d = _word(text, size - 8) * factor, _word(text, size - 16) * K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _joined(y & MASK, (a + _rotated(b + K2, 18) + c) & MASK, factor)
    e, f = _word(text, 16) * factor, _word(text, 24)
    g, h = (y + _word(text, size - 32)) * factor, (z + _word(text, size - 24)) * factor
    u = _rotated(e + f, 43) + _rotated(g, 30) + h
    v = e + _rotated(f + a, 18) + g
    return _joined(u & MASK, v & MASK, factor)


def _longer(text: bytes) -> int:
    size = len(text)
    x = 81 * K2 + _word(text, 0)
    y = 81 * K1 + 113
    z = _mixed(y * K2 + 113) * K2
    v = w = (0, 0)
    for start in range(0, (size - 1) // 64 * 64, 64):
        x, y, z, v, w = _round(text, start, (x, y, z), v, w, K1, 1)
    factor = K1 + ((z & 0xFF) << 1)
    w = w[0] + ((size - 1) & 63), w[1]
    v = v[0] + w[0], v[1]
    w = w[0] + v[0], w[1]
    x, y, z, v, w = _round(text, size - 64, (x, y, z), v, w, factor, 9)
    first = _joined(v[0], w[0], factor) + _mixed(y) * K0 + z
    second = _joined(v[1], w[1], factor) + x
    return _joined(first & MASK, second & MASK, factor)


Pair = tuple[int, int]


def _round(
    text: bytes, start: int, state: tuple[int, int, int], v: Pair, w: Pair, factor: int, weight: int
) -> tuple[int, int, int, Pair, Pair]:
    """Return the state (x, y, z, v, w) updated with 64 bytes."""
    x, y, z = state
    x = _rotated(x + y + v[0] + _word(text, start + 8), 37) * factor
    y = _rotated(y + v[1] + _word(text, start + 48), 42) * factor
    x = (x & MASK) ^ (w[1] * weight & MASK)
    y += v[0] * weight + _word(text, start + 40)
    z = _rotated(z + w[0], 33) * factor & MASK
    v = _weak(text, start, v[1] * factor, x + w[0])
    w = _weak(text, start + 32, z + w[1], y + _word(text, start + 16))
    return z, y & MASK, x, v, w


def _weak(text: bytes, start: int, a: int, b: int) -> Pair:
    """Return two hashes of 32 bytes and two seeds."""
    first, second, third, fourth = (_word(text, start + 8 * i) for i in range(4))
    a += first
    b = _rotated(b + a + fourth, 21)
    c = a
    a += second + third
    b += _rotated(a, 44)
    return (a + fourth) & MASK, (b + c) & MASK
