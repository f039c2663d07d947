"""Optimizer steps that the host computes, for programs that run these kernels by name.

Optimizers do not call a kernel on the host. They run its formula on tensors, whose elementwise calls become one
dispatch for variables of one size; see docs/notes/0013-chains-of-webgpu.md.
"""

from plugrad.extend import host_implementations
from plugrad.kernels import optimizers
from plugrad_webgpu.declare import table

table.update(host_implementations(optimizers), on_host=True)
