"""Batching rules of recurrent cells, which treat all leading axes alike."""

from plugrad.kernels import recurrent
from plugrad.registry.batching import register_batching, run_with_leading_axis

register_batching(recurrent.lstm_cell, run_with_leading_axis)
register_batching(recurrent.lstm_cell_gradient, run_with_leading_axis)
register_batching(recurrent.gru_cell, run_with_leading_axis)
register_batching(recurrent.gru_cell_gradient, run_with_leading_axis)
