"""DeepCTR's estimators for click rates, one after the other, on made-up clicks."""

import sys

import numpy as np
import tensorflow as tf
from deepctr.estimator import DCNEstimator, DeepFMEstimator, WDLEstimator, xDeepFMEstimator

random = np.random.RandomState(0)
ids = random.randint(0, 10, size=(256, 3))
numbers = random.normal(size=(256, 2)).astype("float32")
clicked = (ids[:, 0] > 4).astype("float32")

columns = [
    tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_identity(f"C{i}", 10), 4
    )
    for i in range(3)
]
columns += [tf.feature_column.numeric_column(f"I{i}") for i in range(2)]
linear = [tf.feature_column.categorical_column_with_identity(f"C{i}", 10) for i in range(3)]
linear += [tf.feature_column.numeric_column(f"I{i}") for i in range(2)]


def input_fn():
    features = {f"C{i}": ids[:, i] for i in range(3)}
    features.update({f"I{i}": numbers[:, i] for i in range(2)})
    return tf.data.Dataset.from_tensor_slices((features, clicked)).batch(64)


for model in (DeepFMEstimator, WDLEstimator, DCNEstimator, xDeepFMEstimator):
    estimator = model(linear, columns, task="binary", model_dir=f"{sys.argv[1]}/{model.__name__}")
    estimator.train(input_fn)
    print(model.__name__, estimator.evaluate(input_fn))
    print(next(estimator.predict(input_fn)))
