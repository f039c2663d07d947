"""Metrics: functions of one batch, and classes that add up over many.

Each result is a 0-d tensor, or a tensor of one number for each class. Larger is better, but for `Perplexity`.

`accuracy`, `binary_accuracy` and `top_k_accuracy` are averages over examples, so the average of batches is that of
all. `precision`, `recall`, `f1_score` and `roc_auc` are not: give them all examples at once, or take a class. The
classes are used in one way:

>>> metric = nn.metrics.F1(classes=3)
>>> for labels, logits in [([0, 2], np.eye(3)[[0, 1]]), ([1, 1], np.eye(3)[[1, 1]])]:
...     metric.update(labels, logits)
>>> metric.result()
tensor(0.6, dtype=float32)

`fit` and `evaluate` take objects as well as functions. Their sums are variables in float32, which `update` changes also
inside `plugrad.jit`, and reading them waits for the device once; numbers of examples are exact up to 2**24.

Weights say how much each example counts: sums of weights take the place of numbers of examples, as with scikit-learn's
``sample_weight``. They are numbers or bools of 0 or more in a shape that broadcasts to that of the labels.
"""

from plugrad_nn.scores import (
    accuracy as accuracy,
    binary_accuracy as binary_accuracy,
    f1_score as f1_score,
    precision as precision,
    recall as recall,
    roc_auc as roc_auc,
    top_k_accuracy as top_k_accuracy,
)
from plugrad_nn.streams import (
    AUC as AUC,
    BLEU as BLEU,
    F1 as F1,
    Accuracy as Accuracy,
    ConfusionMatrix as ConfusionMatrix,
    Metric as Metric,
    Perplexity as Perplexity,
    Precision as Precision,
    Recall as Recall,
)
