"""Poison in new memory of wasm and webgpu: an element of a result that no kernel writes is wrong in every run."""

from importlib.util import find_spec

POISON = b"\xff"
"""The byte that fills new blocks: floats are NaN, and integers are -1 or the largest."""
MAX_POISONED_BYTES = 1 << 20
"""The bytes up to which a block is filled; tests of the address space take gigabytes."""


def poison_new_blocks(monkeypatch):
    """Fill each block that an array or the store takes until the test ends."""
    if find_spec("plugrad_wasm") is None:
        return
    from plugrad_wasm.memory import CachedBlock, WasmArray, round_up_to_size_class

    take_array_block, take_cached_block = WasmArray.__init__, CachedBlock.__init__

    def fill(memory, address, capacity):
        if memory.host is not None and capacity <= MAX_POISONED_BYTES:  # a recording has no bytes
            memory.host[address : address + capacity] = POISON * capacity

    def take_poisoned_array_block(self, memory, shape, dtype, size, capacity):
        take_array_block(self, memory, shape, dtype, size, capacity)
        fill(memory, self.address, capacity)

    def take_poisoned_cached_block(self, memory, nbytes):
        take_cached_block(self, memory, nbytes)
        fill(memory, self.address, round_up_to_size_class(nbytes))

    monkeypatch.setattr(WasmArray, "__init__", take_poisoned_array_block)
    monkeypatch.setattr(CachedBlock, "__init__", take_poisoned_cached_block)


def poison_new_buffers(monkeypatch):
    """Fill each buffer that an array of webgpu takes until the test ends, unless recorded work may still use it."""
    if find_spec("plugrad_webgpu") is None:
        return
    from plugrad_webgpu.memory.buffers import Pool

    attach_storage = Pool.attach_storage

    def attach_poisoned_storage(self, reference, nbytes, *, oldest=False):
        is_new = reference.storage is None
        storage = attach_storage(self, reference, nbytes, oldest=oldest)
        device = self._allocator
        if is_new and nbytes <= MAX_POISONED_BYTES and storage.freed_in != device.batch:
            device._raw.write(storage.handle, POISON * nbytes, nbytes)  # before the recorded work
        return storage

    monkeypatch.setattr(Pool, "attach_storage", attach_poisoned_storage)
