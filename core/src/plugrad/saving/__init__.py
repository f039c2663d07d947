"""Saving and loading: nested containers of tensors as files, and the weights of TensorFlow.js."""
