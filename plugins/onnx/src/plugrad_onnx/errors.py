"""The errors of damaged files, and of nodes that cannot compute their outputs."""

from __future__ import annotations

from plugrad.errors import PlugradError


class InvalidModel(PlugradError, ValueError):
    """The file is damaged, or breaks a rule of ONNX.

    The message names the file or the node. Write the model again with the program that made it;
    ``onnx.checker.check_model`` says more about the rule.
    """


class NodeFailed(PlugradError, RuntimeError):
    """A node of the model cannot compute its outputs from these inputs.

    The message names the node and its operator; the error of the computation is its cause. Most
    often, inputs of the model have other shapes than those for which it was made.
    """
