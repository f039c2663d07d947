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
SAMPLES = _RNG.normal(size=(60, 5)) @ _RNG.normal(size=(5, 5)) + 0.5
NEW_SAMPLES = _RNG.normal(size=(7, 5))
POSITIVE_SAMPLES = np.abs(SAMPLES) + 0.1
CLASSES = (SAMPLES[:, 0] + SAMPLES[:, 1] > 0.8).astype(np.int64) + (SAMPLES[:, 2] > 1)
BINARY_CLASSES = (SAMPLES[:, 0] - SAMPLES[:, 3] > 0.1).astype(np.int64)
PREDICTED_CLASSES = np.where(_RNG.uniform(size=60) < 0.7, CLASSES, 1)
PREDICTED_BINARY_CLASSES = np.where(_RNG.uniform(size=60) < 0.7, BINARY_CLASSES, 1)
PROBABILITIES = _RNG.uniform(0.05, 0.95, 60)
TARGET = SAMPLES @ np.array([1.0, -2.0, 0.5, 0.0, 3.0]) + _RNG.normal(size=60) * 0.1
PREDICTED_TARGET = TARGET + _RNG.normal(size=60) * 0.3
POSITIVE_TARGET = np.abs(TARGET) + 0.2
PREDICTED_POSITIVE_TARGET = np.abs(PREDICTED_TARGET) + 0.2
LABELS = (_RNG.uniform(size=(20, 3)) > 0.5).astype(np.int64)
PREDICTED_LABELS = (_RNG.uniform(size=(20, 3)) > 0.5).astype(np.int64)
CLUSTERED_POINTS = np.vstack([SAMPLES[:30] - 6, SAMPLES[30:] + 6])


def fit_transform_call(estimator):
    """Return a call that fits an estimator and transforms other data."""
    return lambda t: estimator.fit(t(SAMPLES)).transform(t(NEW_SAMPLES))


def fit_predict_call(estimator, target):
    """Return a call that fits an estimator to a target and predicts that of other data."""
    return lambda t: estimator.fit(t(SAMPLES), t(target)).predict(t(NEW_SAMPLES))


def metric_call(metric, true, guess, /, **options):
    """Return a call of a metric of two arrays."""
    return lambda t: metric(t(true), t(guess), **options)


CALLS = {
    # --- estimators and transformers ---
    "PCA(full)": fit_transform_call(PCA(2, svd_solver="full")),
    "PCA(covariance_eigh)": fit_transform_call(PCA(2, svd_solver="covariance_eigh")),
    "PCA(randomized)": fit_transform_call(PCA(2, svd_solver="randomized", random_state=0)),
    "PCA.inverse_transform": lambda t: (
        pca := PCA(2, svd_solver="full").fit(t(SAMPLES))
    ).inverse_transform(pca.transform(t(NEW_SAMPLES))),
    "Ridge": fit_predict_call(Ridge(solver="svd"), TARGET),
    "RidgeCV": fit_predict_call(RidgeCV(), TARGET),
    "RidgeClassifier": fit_predict_call(RidgeClassifier(solver="svd"), CLASSES),
    "LinearDiscriminantAnalysis": fit_predict_call(LinearDiscriminantAnalysis(), CLASSES),
    "GaussianNB": fit_predict_call(GaussianNB(), CLASSES),
    "GaussianNB.predict_proba": lambda t: (
        GaussianNB().fit(t(SAMPLES), t(CLASSES)).predict_proba(t(NEW_SAMPLES))
    ),
    "LogisticRegression": fit_predict_call(LogisticRegression(), CLASSES),
    "PoissonRegressor": fit_predict_call(PoissonRegressor(), POSITIVE_TARGET),
    "GaussianMixture": lambda t: (
        GaussianMixture(
            2, init_params="random", means_init=t(CLUSTERED_POINTS[[0, 40]]), random_state=0
        )
        .fit(t(CLUSTERED_POINTS))
        .predict(t(CLUSTERED_POINTS))
    ),
    "CalibratedClassifierCV": lambda t: (
        CalibratedClassifierCV(LinearDiscriminantAnalysis(), method="temperature", cv=3)
        .fit(t(SAMPLES), t(BINARY_CLASSES))
        .predict_proba(t(NEW_SAMPLES))
    ),
    "Nystroem": fit_transform_call(Nystroem(gamma=0.1, n_components=8, random_state=0)),
    "Binarizer": fit_transform_call(Binarizer(threshold=0.2)),
    "KernelCenterer": lambda t: KernelCenterer().fit_transform(t(SAMPLES @ SAMPLES.T)),
    "LabelBinarizer": lambda t: LabelBinarizer().fit_transform(t(CLASSES)),
    "LabelEncoder": lambda t: LabelEncoder().fit_transform(t(CLASSES * 3)),
    "MaxAbsScaler": fit_transform_call(MaxAbsScaler()),
    "MinMaxScaler": fit_transform_call(MinMaxScaler()),
    "Normalizer": fit_transform_call(Normalizer()),
    "PolynomialFeatures": fit_transform_call(PolynomialFeatures(2)),
    "StandardScaler": fit_transform_call(StandardScaler()),
    # --- several estimators ---
    "make_pipeline": fit_predict_call(make_pipeline(StandardScaler(), Ridge(solver="svd")), TARGET),
    "GridSearchCV": lambda t: (
        GridSearchCV(Ridge(solver="svd"), {"alpha": [0.1, 1.0]}, cv=3)
        .fit(t(SAMPLES), t(TARGET))
        .predict(t(NEW_SAMPLES))
    ),
    "cross_val_predict": lambda t: model_selection.cross_val_predict(
        Ridge(solver="svd"), t(SAMPLES), t(TARGET), cv=3
    ),
    "cross_val_score": lambda t: model_selection.cross_val_score(
        Ridge(solver="svd"), t(SAMPLES), t(TARGET), cv=3
    ),
    "train_test_split": lambda t: train_test_split(t(SAMPLES), t(CLASSES), random_state=0),
    # --- metrics of classes ---
    "accuracy_score": metric_call(metrics.accuracy_score, CLASSES, PREDICTED_CLASSES),
    "balanced_accuracy_score": metric_call(
        metrics.balanced_accuracy_score, CLASSES, PREDICTED_CLASSES
    ),
    "brier_score_loss": metric_call(metrics.brier_score_loss, BINARY_CLASSES, PROBABILITIES),
    "cohen_kappa_score": metric_call(metrics.cohen_kappa_score, CLASSES, PREDICTED_CLASSES),
    "confusion_matrix": metric_call(metrics.confusion_matrix, CLASSES, PREDICTED_CLASSES),
    "multilabel_confusion_matrix": metric_call(
        metrics.multilabel_confusion_matrix, LABELS, PREDICTED_LABELS
    ),
    "d2_log_loss_score": metric_call(metrics.d2_log_loss_score, BINARY_CLASSES, PROBABILITIES),
    "det_curve": metric_call(metrics.det_curve, BINARY_CLASSES, PROBABILITIES),
    "roc_curve": metric_call(metrics.roc_curve, BINARY_CLASSES, PROBABILITIES),
    "roc_auc_score": metric_call(metrics.roc_auc_score, BINARY_CLASSES, PROBABILITIES),
    "average_precision_score": metric_call(
        metrics.average_precision_score, BINARY_CLASSES, PROBABILITIES
    ),
    "precision_recall_curve": metric_call(
        metrics.precision_recall_curve, BINARY_CLASSES, PROBABILITIES
    ),
    "f1_score": metric_call(metrics.f1_score, CLASSES, PREDICTED_CLASSES, average="macro"),
    "fbeta_score": metric_call(
        metrics.fbeta_score, BINARY_CLASSES, PREDICTED_BINARY_CLASSES, beta=2.0
    ),
    "hamming_loss": metric_call(metrics.hamming_loss, CLASSES, PREDICTED_CLASSES),
    "jaccard_score": metric_call(metrics.jaccard_score, BINARY_CLASSES, PREDICTED_BINARY_CLASSES),
    "log_loss": metric_call(metrics.log_loss, BINARY_CLASSES, PROBABILITIES),
    "precision_score": metric_call(
        metrics.precision_score, CLASSES, PREDICTED_CLASSES, average="macro"
    ),
    "recall_score": metric_call(metrics.recall_score, CLASSES, PREDICTED_CLASSES, average="micro"),
    "precision_recall_fscore_support": metric_call(
        metrics.precision_recall_fscore_support, CLASSES, PREDICTED_CLASSES
    ),
    "zero_one_loss": metric_call(metrics.zero_one_loss, CLASSES, PREDICTED_CLASSES),
    # --- metrics of numbers ---
    "d2_tweedie_score": metric_call(
        metrics.d2_tweedie_score, POSITIVE_TARGET, PREDICTED_POSITIVE_TARGET
    ),
    "explained_variance_score": metric_call(
        metrics.explained_variance_score, TARGET, PREDICTED_TARGET
    ),
    "max_error": metric_call(metrics.max_error, TARGET, PREDICTED_TARGET),
    "mean_absolute_error": metric_call(metrics.mean_absolute_error, TARGET, PREDICTED_TARGET),
    "mean_absolute_percentage_error": metric_call(
        metrics.mean_absolute_percentage_error, POSITIVE_TARGET, PREDICTED_POSITIVE_TARGET
    ),
    "mean_gamma_deviance": metric_call(
        metrics.mean_gamma_deviance, POSITIVE_TARGET, PREDICTED_POSITIVE_TARGET
    ),
    "mean_pinball_loss": metric_call(metrics.mean_pinball_loss, TARGET, PREDICTED_TARGET),
    "mean_poisson_deviance": metric_call(
        metrics.mean_poisson_deviance, POSITIVE_TARGET, PREDICTED_POSITIVE_TARGET
    ),
    "mean_squared_error": metric_call(metrics.mean_squared_error, TARGET, PREDICTED_TARGET),
    "mean_squared_log_error": metric_call(
        metrics.mean_squared_log_error, POSITIVE_TARGET, PREDICTED_POSITIVE_TARGET
    ),
    "median_absolute_error": metric_call(metrics.median_absolute_error, TARGET, PREDICTED_TARGET),
    "r2_score": metric_call(metrics.r2_score, TARGET, PREDICTED_TARGET),
    "root_mean_squared_error": metric_call(
        metrics.root_mean_squared_error, TARGET, PREDICTED_TARGET
    ),
    # --- distances and kernels ---
    "additive_chi2_kernel": metric_call(
        pairwise.additive_chi2_kernel, POSITIVE_SAMPLES, np.abs(NEW_SAMPLES)
    ),
    "chi2_kernel": metric_call(pairwise.chi2_kernel, POSITIVE_SAMPLES, np.abs(NEW_SAMPLES)),
    "cosine_similarity": metric_call(pairwise.cosine_similarity, SAMPLES, NEW_SAMPLES),
    "cosine_distances": metric_call(pairwise.cosine_distances, SAMPLES, NEW_SAMPLES),
    "euclidean_distances": metric_call(pairwise.euclidean_distances, SAMPLES, NEW_SAMPLES),
    "laplacian_kernel": metric_call(pairwise.laplacian_kernel, SAMPLES, NEW_SAMPLES, gamma=0.1),
    "linear_kernel": metric_call(pairwise.linear_kernel, SAMPLES, NEW_SAMPLES),
    "manhattan_distances": metric_call(pairwise.manhattan_distances, SAMPLES, NEW_SAMPLES),
    "paired_cosine_distances": metric_call(
        pairwise.paired_cosine_distances, SAMPLES[:7], NEW_SAMPLES
    ),
    "paired_euclidean_distances": metric_call(
        pairwise.paired_euclidean_distances, SAMPLES[:7], NEW_SAMPLES
    ),
    "pairwise_distances": metric_call(
        pairwise.pairwise_distances, SAMPLES, NEW_SAMPLES, metric="cosine"
    ),
    "pairwise_kernels": metric_call(pairwise.pairwise_kernels, SAMPLES, NEW_SAMPLES, metric="rbf"),
    "polynomial_kernel": metric_call(pairwise.polynomial_kernel, SAMPLES, NEW_SAMPLES),
    "rbf_kernel": metric_call(pairwise.rbf_kernel, SAMPLES, NEW_SAMPLES),
    "sigmoid_kernel": metric_call(pairwise.sigmoid_kernel, SAMPLES, NEW_SAMPLES, gamma=0.01),
}
"""The calls by name. Each is given a function that makes an array of a library from one of NumPy."""
