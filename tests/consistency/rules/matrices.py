"""Rules about matrices, transforms and training."""

import numpy as np

from consistency.rules.reasons import (
    ANY_AXIS_IS_ALLOWED,
    DTYPES_ARE_PROMOTED,
    EINSUM_IS_NUMPYS,
    VECTORS_ARE_ROWS_OR_COLUMNS,
)
from consistency.rules.row import accepted, ones, ones_like, rejected
from plugrad.errors import ArgumentError, ArgumentValueError, DTypeError, ShapeError
from properties.calls import F, M, V

ONES = np.ones((2, 3), "float32")
MUST_BE_EQUAL = "they must be equal"
BROADCAST_REMEDY = "sizes must be equal or 1, counted from the right"

LINEAR_ALGEBRA_RULES = (
    rejected(
        *("ranks", "dot", {"a": ones(2, 2, 3)}, ShapeError),
        *("dot: ", "shapes (2, 2, 3) and (3,)", "must have one or two axes; use matmul for more"),
    ),
    rejected(
        *("ranks", "mat_mul", {"a": ones()}, ShapeError),
        *("matmul: ", "shapes () and (2, 3)", "must have an axis; use multiply for scalars"),
    ),
    accepted("ranks", "mat_mul", {"a": V}, VECTORS_ARE_ROWS_OR_COLUMNS, V @ F.T),
    rejected(
        *("inner sizes", "dot", {"b": ones(4)}, ShapeError),
        *("matmul: ", "shapes (3,) and (4,)", "a vector must be as long as the last axis"),
    ),
    rejected(
        *("inner sizes", "mat_mul fused.mat_mul", {"b": ones(2, 4)}, ShapeError),
        *("MatMul: ", "shapes (2, 3) and (2, 4)", "do not match: 3 columns meet 4 rows"),
    ),
    rejected(
        *("batch axes", "mat_mul fused.mat_mul", {"a": ones(2, 2, 3), "b": ones(3, 2, 3)}),
        *(ShapeError, "MatMul: ", "shapes (2,) and (3,)", BROADCAST_REMEDY),
    ),
    rejected(
        *("ranks", "outer_product", {"a": M}, ShapeError),
        *("outer: ", "shapes (2, 2) and (3,)", "must have one axis each"),
    ),
    rejected(
        *("one arrow", "einsum", {"equation": "ij->jk->ki"}, ArgumentValueError),
        *("einsum: equation", "'ij->jk->ki'", "only letters, commas, '...' and one '->'"),
    ),
    accepted("one arrow", "einsum", {"equation": "ij,kj"}, EINSUM_IS_NUMPYS, F @ F.T),
    rejected(
        *("operands", "einsum", {"equation": "ij->ji"}, ArgumentValueError),
        *("einsum: equation", "'ij->ji' … not for 2", "has terms for 1"),
    ),
    accepted(
        *(
            "operands",
            "einsum",
            {"equation": "ij,kj,kl->il", "tensors": (F, F, F)},
            EINSUM_IS_NUMPYS,
        ),
        F @ F.T @ F,
    ),
    accepted("labels", "einsum", {"equation": "...j,kj->...k"}, EINSUM_IS_NUMPYS, F @ F.T),
    accepted(
        *("labels", "einsum", {"equation": "ii,kj->ik", "tensors": (M, F)}, EINSUM_IS_NUMPYS),
        np.einsum("ii,kj->ik", M, F),
    ),
    rejected(
        *("sizes and results", "einsum", {"equation": "ij,jk->ik"}, ShapeError),
        *("Einsum: letter 'j' in", "'ij,jk->ik'", "stands for sizes 3 and 2"),
    ),
    rejected(
        *("sizes and results", "einsum", {"equation": "ij,kj->iz"}, ArgumentValueError),
        *("einsum: ", "equation 'ij,kj->iz'", "must occur before it, and only once after it"),
    ),
    rejected(
        *("rank", "linalg.band_part", {"x": V}, ShapeError),
        *("band_part: ", "shape (3,)", "must have two axes or more"),
    ),
    rejected(
        *("rank", "linalg.qr", {"x": V}, ShapeError),
        *("Qr: ", "shape (3,)", "must have two axes or more"),
    ),
    *(
        rejected(
            *("diagonals", "linalg.band_part", {name: most + 1}, ArgumentValueError),
            *(f"band_part: {name}", f"={most + 1}", f"must not be greater than {most}"),
        )
        for name, most in (("num_lower", 2), ("num_upper", 3))
    ),
    *(
        rejected(
            *("diagonals", "linalg.band_part", {name: 1.5}, DTypeError),
            *(f"band_part: {name}", "is float32", "it must be one integer"),
        )
        for name in ("num_lower", "num_upper")
    ),
    rejected(
        *("vectors", "linalg.gram_schmidt", {"xs": []}, ShapeError),
        *("gram_schmidt: ", "shape (0,)", "must be (vectors, elements) with at least one vector"),
    ),
    rejected(
        *("vectors", "linalg.gram_schmidt", {"xs": [V, V[:2]]}, ShapeError),
        *("gram_schmidt: vectors", "[(3,), (2,)]", "must be equally long"),
    ),
    rejected(
        *("number of vectors", "linalg.gram_schmidt", {"xs": ones(3, 2)}, ShapeError),
        *("gram_schmidt: ", "shape (3, 2)", "not more vectors than elements"),
    ),
    accepted(
        *("complex numbers", "spectral.fft", {"x": F, "norm": "backward"}),
        *(DTYPES_ARE_PROMOTED, np.fft.fft(F, 4)),
    ),
    accepted(
        *("complex numbers", "spectral.ifft", {"x": F, "norm": "backward"}),
        *(DTYPES_ARE_PROMOTED, np.fft.ifft(F, 4)),
    ),
    rejected(
        *("real numbers", "spectral.rfft", {"x": ones_like("complex64")}, DTypeError),
        *("rfft ", "not complex64", "use plugrad.fft.fft for complex numbers, or cast it"),
    ),
    rejected(
        *("real numbers", "spectral.rfft", {"x": ones_like("int32")}, DTypeError),
        *("rfft ", "not int32", "or cast it with astype('float32')"),
    ),
)

LOSS_RULES = (
    *(
        rejected(
            *("equal shapes", ops, {name: ones(3, 2)}, ShapeError),
            *("{op}: labels … " + name, "(2, 3) … (3, 2)", MUST_BE_EQUAL),
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
    rejected(
        *(
            "reduction",
            "losses.compute_weighted_loss",
            {"reduction": "average"},
            ArgumentValueError,
        ),
        *("{op}: reduction", "='average'", "'none', 'sum', 'mean' or 'sum_by_nonzero_weights'"),
    ),
    accepted(
        "last axis",
        "losses.softmax_cross_entropy",
        {"onehot_labels": ONES, "logits": ONES, "weights": None, "label_smoothing": 0.0, "axis": 0},
        *(ANY_AXIS_IS_ALLOWED, 2 * np.log(2)),
    ),
    rejected(
        *("equal dtypes and shapes", "moving_average", {"x": ones(3, 2)}, ShapeError),
        *("moving_average: average … x", "(2, 3) … (3, 2)", MUST_BE_EQUAL),
    ),
    accepted(
        *(
            "equal dtypes and shapes",
            "moving_average",
            {"x": ones_like("int32"), "step": None},
            DTYPES_ARE_PROMOTED,
        ),
        (F + 1) / 2,
    ),
    accepted(
        *("step", "moving_average", {"step": None}),
        *("without a step the bias is left alone", F),
    ),
    *(
        rejected(
            *("lists", "multi_rnn_cell", {name: 1.0}, ArgumentError),
            *(f"multi_rnn_cell: {name}", "=1.0", "must be a list"),
        )
        for name in ("c", "h")
    ),
)

MATRIX_RULES = (*LINEAR_ALGEBRA_RULES, *LOSS_RULES)
