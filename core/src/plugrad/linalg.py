"""Linear algebra: products, factorizations and norms of matrices."""

from plugrad.ops.decomposition import (
    cholesky as cholesky,
    det as det,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    gram_schmidt as gram_schmidt,
    inv as inv,
    lstsq as lstsq,
    lu as lu,
    matrix_power as matrix_power,
    matrix_rank as matrix_rank,
    pinv as pinv,
    qr as qr,
    slogdet as slogdet,
    solve as solve,
    solve_triangular as solve_triangular,
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
from plugrad.ops.matrix_functions import (
    expm as expm,
    fractional_matrix_power as fractional_matrix_power,
    logm as logm,
    solve_sylvester as solve_sylvester,
    sqrtm as sqrtm,
)
from plugrad.ops.norms import (
    cond as cond,
    matrix_norm as matrix_norm,
    norm as norm,
    vector_norm as vector_norm,
)
