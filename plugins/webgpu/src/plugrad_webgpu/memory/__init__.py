"""Arrays of the device, the pool of their buffers, and copies to, from and within the device."""
