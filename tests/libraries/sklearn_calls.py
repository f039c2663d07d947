"""Calls of scikit-learn that its documentation lists as supporting the array API standard."""

import numpy as np
from sklearn import metrics, model_selection
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from sklearn.metrics import pairwise
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KernelCenterer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
)

_RNG = np.random.default_rng(5)
X = _RNG.normal(size=(60, 5)) @ _RNG.normal(size=(5, 5)) + 0.5
Z = _RNG.normal(size=(7, 5))
POSITIVE = np.abs(X) + 0.1
CLASSES = (X[:, 0] + X[:, 1] > 0.8).astype(np.int64) + (X[:, 2] > 1)
HALVES = (X[:, 0] - X[:, 3] > 0.1).astype(np.int64)
GUESSES = np.where(_RNG.uniform(size=60) < 0.7, CLASSES, 1)
HALF_GUESSES = np.where(_RNG.uniform(size=60) < 0.7, HALVES, 1)
CHANCES = _RNG.uniform(0.05, 0.95, 60)
TARGET = X @ np.array([1.0, -2.0, 0.5, 0.0, 3.0]) + _RNG.normal(size=60) * 0.1
ESTIMATE = TARGET + _RNG.normal(size=60) * 0.3
COUNTS = np.abs(TARGET) + 0.2
COUNTED = np.abs(ESTIMATE) + 0.2
LABELS = (_RNG.uniform(size=(20, 3)) > 0.5).astype(np.int64)
LABELLED = (_RNG.uniform(size=(20, 3)) > 0.5).astype(np.int64)
CENTRES = np.vstack([X[:30] - 6, X[30:] + 6])


def transformed(estimator):
    """Return a call that fits an estimator and transforms other data."""
    return lambda t: estimator.fit(t(X)).transform(t(Z))


def predicted(estimator, target):
    """Return a call that fits an estimator to a target and predicts that of other data."""
    return lambda t: estimator.fit(t(X), t(target)).predict(t(Z))


def scored(metric, true, guess, /, **options):
    """Return a call of a metric of two arrays."""
    return lambda t: metric(t(true), t(guess), **options)


CALLS = {
    # --- estimators and transformers ---
    "PCA(full)": transformed(PCA(2, svd_solver="full")),
    "PCA(covariance_eigh)": transformed(PCA(2, svd_solver="covariance_eigh")),
    "PCA(randomized)": transformed(PCA(2, svd_solver="randomized", random_state=0)),
    "PCA.inverse_transform": lambda t: (
        pca := PCA(2, svd_solver="full").fit(t(X))
    ).inverse_transform(pca.transform(t(Z))),
    "Ridge": predicted(Ridge(solver="svd"), TARGET),
    "RidgeCV": predicted(RidgeCV(), TARGET),
    "RidgeClassifier": predicted(RidgeClassifier(solver="svd"), CLASSES),
    "LinearDiscriminantAnalysis": predicted(LinearDiscriminantAnalysis(), CLASSES),
    "GaussianNB": predicted(GaussianNB(), CLASSES),
    "GaussianNB.predict_proba": lambda t: GaussianNB().fit(t(X), t(CLASSES)).predict_proba(t(Z)),
    "LogisticRegression": predicted(LogisticRegression(), CLASSES),
    "PoissonRegressor": predicted(PoissonRegressor(), COUNTS),
    "GaussianMixture": lambda t: (
        GaussianMixture(2, init_params="random", means_init=t(CENTRES[[0, 40]]), random_state=0)
        .fit(t(CENTRES))
        .predict(t(CENTRES))
    ),
    "CalibratedClassifierCV": lambda t: (
        CalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=3)
        .fit(t(X), t(HALVES))
        .predict_proba(t(Z))
    ),
    "Nystroem": transformed(Nystroem(gamma=0.1, n_components=8, random_state=0)),
    "Binarizer": transformed(Binarizer(threshold=0.2)),
    "KernelCenterer": lambda t: KernelCenterer().fit_transform(t(X @ X.T)),
    "LabelBinarizer": lambda t: LabelBinarizer().fit_transform(t(CLASSES)),
    "LabelEncoder": lambda t: LabelEncoder().fit_transform(t(CLASSES * 3)),
    "MaxAbsScaler": transformed(MaxAbsScaler()),
    "MinMaxScaler": transformed(MinMaxScaler()),
    "Normalizer": transformed(Normalizer()),
    "PolynomialFeatures": transformed(PolynomialFeatures(2)),
    "StandardScaler": transformed(StandardScaler()),
    # --- several estimators ---
    "make_pipeline": predicted(make_pipeline(StandardScaler(), Ridge(solver="svd")), TARGET),
    "GridSearchCV": lambda t: (
        GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=3)
        .fit(t(X), t(TARGET))
        .predict(t(Z))
    ),
    "cross_val_predict": lambda t: model_selection.cross_val_predict(
        Ridge(solver="svd"), t(X), t(TARGET), cv=3
    ),
    "cross_val_score": lambda t: model_selection.cross_val_score(
        Ridge(solver="svd"), t(X), t(TARGET), cv=3
    ),
    "train_test_split": lambda t: train_test_split(t(X), t(CLASSES), random_state=0),
    # --- metrics of classes ---
    "accuracy_score": scored(metrics.accuracy_score, CLASSES, GUESSES),
    "balanced_accuracy_score": scored(metrics.balanced_accuracy_score, CLASSES, GUESSES),
    "brier_score_loss": scored(metrics.brier_score_loss, HALVES, CHANCES),
    "cohen_kappa_score": scored(metrics.cohen_kappa_score, CLASSES, GUESSES),
    "confusion_matrix": scored(metrics.confusion_matrix, CLASSES, GUESSES),
    "multilabel_confusion_matrix": scored(metrics.multilabel_confusion_matrix, LABELS, LABELLED),
    "d2_log_loss_score": scored(metrics.d2_log_loss_score, HALVES, CHANCES),
    "det_curve": scored(metrics.det_curve, HALVES, CHANCES),
    "roc_curve": scored(metrics.roc_curve, HALVES, CHANCES),
    "roc_auc_score": scored(metrics.roc_auc_score, HALVES, CHANCES),
    "average_precision_score": scored(metrics.average_precision_score, HALVES, CHANCES),
    "precision_recall_curve": scored(metrics.precision_recall_curve, HALVES, CHANCES),
    "f1_score": scored(metrics.f1_score, CLASSES, GUESSES, average="macro"),
    "fbeta_score": scored(metrics.fbeta_score, HALVES, HALF_GUESSES, beta=2.0),
    "hamming_loss": scored(metrics.hamming_loss, CLASSES, GUESSES),
    "jaccard_score": scored(metrics.jaccard_score, HALVES, HALF_GUESSES),
    "log_loss": scored(metrics.log_loss, HALVES, CHANCES),
    "precision_score": scored(metrics.precision_score, CLASSES, GUESSES, average="macro"),
    "recall_score": scored(metrics.recall_score, CLASSES, GUESSES, average="micro"),
    "precision_recall_fscore_support": scored(
        metrics.precision_recall_fscore_support, CLASSES, GUESSES
    ),
    "zero_one_loss": scored(metrics.zero_one_loss, CLASSES, GUESSES),
    # --- metrics of numbers ---
    "d2_tweedie_score": scored(metrics.d2_tweedie_score, COUNTS, COUNTED),
    "explained_variance_score": scored(metrics.explained_variance_score, TARGET, ESTIMATE),
    "max_error": scored(metrics.max_error, TARGET, ESTIMATE),
    "mean_absolute_error": scored(metrics.mean_absolute_error, TARGET, ESTIMATE),
    "mean_absolute_percentage_error": scored(
        metrics.mean_absolute_percentage_error, COUNTS, COUNTED
    ),
    "mean_gamma_deviance": scored(metrics.mean_gamma_deviance, COUNTS, COUNTED),
    "mean_pinball_loss": scored(metrics.mean_pinball_loss, TARGET, ESTIMATE),
    "mean_poisson_deviance": scored(metrics.mean_poisson_deviance, COUNTS, COUNTED),
    "mean_squared_error": scored(metrics.mean_squared_error, TARGET, ESTIMATE),
    "mean_squared_log_error": scored(metrics.mean_squared_log_error, COUNTS, COUNTED),
    "median_absolute_error": scored(metrics.median_absolute_error, TARGET, ESTIMATE),
    "r2_score": scored(metrics.r2_score, TARGET, ESTIMATE),
    "root_mean_squared_error": scored(metrics.root_mean_squared_error, TARGET, ESTIMATE),
    # --- distances and kernels ---
    "additive_chi2_kernel": scored(pairwise.additive_chi2_kernel, POSITIVE, np.abs(Z)),
    "chi2_kernel": scored(pairwise.chi2_kernel, POSITIVE, np.abs(Z)),
    "cosine_similarity": scored(pairwise.cosine_similarity, X, Z),
    "cosine_distances": scored(pairwise.cosine_distances, X, Z),
    "euclidean_distances": scored(pairwise.euclidean_distances, X, Z),
    "laplacian_kernel": scored(pairwise.laplacian_kernel, X, Z, gamma=0.1),
    "linear_kernel": scored(pairwise.linear_kernel, X, Z),
    "manhattan_distances": scored(pairwise.manhattan_distances, X, Z),
    "paired_cosine_distances": scored(pairwise.paired_cosine_distances, X[:7], Z),
    "paired_euclidean_distances": scored(pairwise.paired_euclidean_distances, X[:7], Z),
    "pairwise_distances": scored(pairwise.pairwise_distances, X, Z, metric="cosine"),
    "pairwise_kernels": scored(pairwise.pairwise_kernels, X, Z, metric="rbf"),
    "polynomial_kernel": scored(pairwise.polynomial_kernel, X, Z),
    "rbf_kernel": scored(pairwise.rbf_kernel, X, Z),
    "sigmoid_kernel": scored(pairwise.sigmoid_kernel, X, Z, gamma=0.01),
}
"""The calls by name. Each is given a function that makes an array of a library from one of NumPy."""
