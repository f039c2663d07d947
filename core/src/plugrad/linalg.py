"""Linear algebra: products, factorizations and norms of matrices."""

from plugrad.ops.decomposition import (
    cholesky as cholesky,
    det as det,
    eigh as eigh,
    eigvalsh as eigvalsh,
    gram_schmidt as gram_schmidt,
    inv as inv,
    matrix_power as matrix_power,
    matrix_rank as matrix_rank,
    pinv as pinv,
    qr as qr,
    slogdet as slogdet,
    solve as solve,
    svd as svd,
    svdvals as svdvals,
)
from plugrad.ops.linalg import (
    band_part as band_part,
    cross as cross,
    diagonal as diagonal,
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    outer as outer,
    tensordot as tensordot,
    trace as trace,
    vecdot as vecdot,
)
from plugrad.ops.norms import (
    matrix_norm as matrix_norm,
    norm as norm,
    vector_norm as vector_norm,
)
