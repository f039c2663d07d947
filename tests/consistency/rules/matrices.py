"""Rules about matrices, transforms and training."""

import numpy as np

from consistency.rules.reasons import (
    ANY_AXIS_IS_ALLOWED,
    DTYPES_ARE_PROMOTED,
    EINSUM_IS_NUMPYS,
    VECTORS_ARE_ROWS_OR_COLUMNS,
)
from consistency.rules.row import accepts, ones, ones_like, rejects
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from properties.calls import FLOATS, MATRIX, VECTOR

ONES = np.ones((2, 3), "float32")
EQUALITY_REMEDY = "they must be equal"
BROADCAST_REMEDY = "sizes must be equal or 1, counted from the right"

LINEAR_ALGEBRA_RULES = (
    rejects(
        *("ranks", "dot", {"a": ones(2, 2, 3)}, ShapeError),
        *("dot: ", "shapes (2, 2, 3) and (3,)", "must have one or two axes; use matmul for more"),
    ),
    rejects(
        *("ranks", "mat_mul", {"a": ones()}, ShapeError),
        *("matmul: ", "shapes () and (2, 3)", "must have an axis; use multiply for scalars"),
    ),
    accepts("ranks", "mat_mul", {"a": VECTOR}, VECTORS_ARE_ROWS_OR_COLUMNS, VECTOR @ FLOATS.T),
    rejects(
        *("inner sizes", "dot", {"b": ones(4)}, ShapeError),
        *("matmul: ", "shapes (3,) and (4,)", "a vector must be as long as the last axis"),
    ),
    rejects(
        *("inner sizes", "mat_mul fused.mat_mul", {"b": ones(2, 4)}, ShapeError),
        *("MatMul: ", "shapes (2, 3) and (2, 4)", "do not match: 3 columns meet 4 rows"),
    ),
    rejects(
        *("batch axes", "mat_mul fused.mat_mul", {"a": ones(2, 2, 3), "b": ones(3, 2, 3)}),
        *(ShapeError, "MatMul: ", "shapes (2,) and (3,)", BROADCAST_REMEDY),
    ),
    rejects(
        *("ranks", "outer_product", {"a": MATRIX}, ShapeError),
        *("outer: ", "shapes (2, 2) and (3,)", "must have one axis each"),
    ),
    rejects(
        *("one arrow", "einsum", {"equation": "ij->jk->ki"}, ArgumentValueError),
        *("einsum: equation", "'ij->jk->ki'", "only letters, commas, '...' and one '->'"),
    ),
    accepts("one arrow", "einsum", {"equation": "ij,kj"}, EINSUM_IS_NUMPYS, FLOATS @ FLOATS.T),
    rejects(
        *("operands", "einsum", {"equation": "ij->ji"}, ArgumentValueError),
        *("einsum: equation", "'ij->ji' … not for 2", "has terms for 1"),
    ),
    accepts(
        *(
            "operands",
            "einsum",
            {"equation": "ij,kj,kl->il", "tensors": (FLOATS, FLOATS, FLOATS)},
            EINSUM_IS_NUMPYS,
        ),
        FLOATS @ FLOATS.T @ FLOATS,
    ),
    accepts("labels", "einsum", {"equation": "...j,kj->...k"}, EINSUM_IS_NUMPYS, FLOATS @ FLOATS.T),
    accepts(
        *(
            "labels",
            "einsum",
            {"equation": "ii,kj->ik", "tensors": (MATRIX, FLOATS)},
            EINSUM_IS_NUMPYS,
        ),
        np.einsum("ii,kj->ik", MATRIX, FLOATS),
    ),
    rejects(
        *("sizes and results", "einsum", {"equation": "ij,jk->ik"}, ShapeError),
        *("Einsum: letter 'j' in", "'ij,jk->ik'", "stands for sizes 3 and 2"),
    ),
    rejects(
        *("sizes and results", "einsum", {"equation": "ij,kj->iz"}, ArgumentValueError),
        *("einsum: ", "equation 'ij,kj->iz'", "must occur before it, and only once after it"),
    ),
    rejects(
        *("rank", "linalg.band_part", {"x": VECTOR}, ShapeError),
        *("band_part: ", "shape (3,)", "must have two axes or more"),
    ),
    rejects(
        *("rank", "linalg.qr", {"x": VECTOR}, ShapeError),
        *("Qr: ", "shape (3,)", "must have two axes or more"),
    ),
    *(
        rejects(
            *("diagonals", "linalg.band_part", {name: most + 1}, ArgumentValueError),
            *(f"band_part: {name}", f"={most + 1}", f"must not be greater than {most}"),
        )
        for name, most in (("num_lower", 2), ("num_upper", 3))
    ),
    *(
        rejects(
            *("diagonals", "linalg.band_part", {name: 1.5}, DTypeError),
            *(f"band_part: {name}", "is float32", "it must be one integer"),
        )
        for name in ("num_lower", "num_upper")
    ),
    rejects(
        *("vectors", "linalg.gram_schmidt", {"xs": []}, ShapeError),
        *("gram_schmidt: ", "shape (0,)", "must be (vectors, elements) with at least one vector"),
    ),
    rejects(
        *("vectors", "linalg.gram_schmidt", {"xs": [VECTOR, VECTOR[:2]]}, ShapeError),
        *("gram_schmidt: vectors", "[(3,), (2,)]", "must be equally long"),
    ),
    rejects(
        *("number of vectors", "linalg.gram_schmidt", {"xs": ones(3, 2)}, ShapeError),
        *("gram_schmidt: ", "shape (3, 2)", "not more vectors than elements"),
    ),
    accepts(
        *("complex numbers", "spectral.fft", {"x": FLOATS, "norm": "backward"}),
        *(DTYPES_ARE_PROMOTED, np.fft.fft(FLOATS, 4)),
    ),
    accepts(
        *("complex numbers", "spectral.ifft", {"x": FLOATS, "norm": "backward"}),
        *(DTYPES_ARE_PROMOTED, np.fft.ifft(FLOATS, 4)),
    ),
    rejects(
        *("real numbers", "spectral.rfft", {"x": ones_like("complex64")}, DTypeError),
        *("rfft ", "not complex64", "use plugrad.fft.fft for complex numbers, or cast it"),
    ),
    rejects(
        *("real numbers", "spectral.rfft", {"x": ones_like("int32")}, DTypeError),
        *("rfft ", "not int32", "or cast it with astype('float32')"),
    ),
)

LOSS_RULES = (
    *(
        rejects(
            *("equal shapes", ops, {name: ones(3, 2)}, ShapeError),
            *("{op}: labels … " + name, "(2, 3) … (3, 2)", EQUALITY_REMEDY),
        )
        for ops, name in (
            (
                "losses.absolute_difference losses.cosine_distance losses.hinge_loss "
                "losses.huber_loss losses.log_loss losses.mean_squared_error",
                "predictions",
            ),
            ("losses.sigmoid_cross_entropy losses.softmax_cross_entropy", "logits"),
        )
    ),
    rejects(
        *(
            "reduction",
            "losses.compute_weighted_loss",
            {"reduction": "average"},
            ArgumentValueError,
        ),
        *("{op}: reduction", "='average'", "'none', 'sum', 'mean' or 'sum_by_nonzero_weights'"),
    ),
    accepts(
        "last axis",
        "losses.softmax_cross_entropy",
        {"onehot_labels": ONES, "logits": ONES, "weights": None, "label_smoothing": 0.0, "axis": 0},
        *(ANY_AXIS_IS_ALLOWED, 2 * np.log(2)),
    ),
    rejects(
        *("equal dtypes and shapes", "moving_average", {"x": ones(3, 2)}, ShapeError),
        *("moving_average: average … x", "(2, 3) … (3, 2)", EQUALITY_REMEDY),
    ),
    accepts(
        *(
            "equal dtypes and shapes",
            "moving_average",
            {"x": ones_like("int32"), "step": None},
            DTYPES_ARE_PROMOTED,
        ),
        (FLOATS + 1) / 2,
    ),
    accepts(
        *("step", "moving_average", {"step": None}),
        *("without a step the bias is left alone", FLOATS),
    ),
    *(
        rejects(
            *("lists", "multi_rnn_cell", {name: 1.0}, ArgumentError),
            *(f"multi_rnn_cell: {name}", "=1.0", "must be a list"),
        )
        for name in ("c", "h")
    ),
)

MATRIX_RULES = (*LINEAR_ALGEBRA_RULES, *LOSS_RULES)
