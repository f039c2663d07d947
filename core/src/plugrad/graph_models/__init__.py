"""Graph models of TensorFlow.js: read, run, trained, and written."""
