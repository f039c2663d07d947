"""One module for each family of operators; importing this package declares them all."""

from plugrad.graph_models.operators import (
    control as control,
    creation as creation,
    elementwise as elementwise,
    image as image,
    lists as lists,
    movement as movement,
    reduction as reduction,
    text as text,
    windows as windows,
)
