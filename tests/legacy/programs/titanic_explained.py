"""The tutorial on understanding boosted trees (2019), on made-up passengers.

Changed are the data, which it downloads, and the plots.
"""

import sys

import numpy as np
import pandas as pd
import tensorflow as tf

tf.random.set_seed(123)
random = np.random.RandomState(1)
N = 200
dftrain = pd.DataFrame(
    {
        "sex": random.choice(["male", "female"], N),
        "age": random.uniform(1, 70, N).round(1),
        "fare": random.gamma(2.0, 15.0, N),
        "class": random.choice(["First", "Second", "Third"], N),
        "n_siblings_spouses": random.randint(0, 4, N),
    }
)
chance = 0.2 + 0.6 * (dftrain["sex"] == "female") + 0.2 * (dftrain["class"] == "First")
y_train = pd.Series((random.uniform(size=N) < chance).astype(int))
dfeval, y_eval = dftrain[:50], y_train[:50]

fc = tf.feature_column
CATEGORICAL_COLUMNS = ["sex", "n_siblings_spouses", "class"]
NUMERIC_COLUMNS = ["age", "fare"]


def one_hot_cat_column(feature_name, vocab):
    return fc.indicator_column(
        fc.categorical_column_with_vocabulary_list(feature_name, vocab))  # fmt: skip


feature_columns = []
for feature_name in CATEGORICAL_COLUMNS:
    vocabulary = dftrain[feature_name].unique()
    feature_columns.append(one_hot_cat_column(feature_name, vocabulary))
for feature_name in NUMERIC_COLUMNS:
    feature_columns.append(fc.numeric_column(feature_name, dtype=tf.float32))

NUM_EXAMPLES = len(y_train)


def make_input_fn(X, y, n_epochs=None, shuffle=True):
    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices((X.to_dict(orient="list"), y))
        if shuffle:
            dataset = dataset.shuffle(NUM_EXAMPLES)
        dataset = dataset.repeat(n_epochs).batch(NUM_EXAMPLES)
        return dataset

    return input_fn


train_input_fn = make_input_fn(dftrain, y_train, n_epochs=1)
eval_input_fn = make_input_fn(dfeval, y_eval, shuffle=False, n_epochs=1)

params = {"n_trees": 50, "max_depth": 3, "n_batches_per_layer": 1, "center_bias": True}
est = tf.estimator.BoostedTreesClassifier(feature_columns, model_dir=sys.argv[1], **params)
est.train(train_input_fn, max_steps=100)
results = est.evaluate(eval_input_fn)
print(pd.Series(results).to_frame())

pred_dicts = list(est.experimental_predict_with_explanations(eval_input_fn))
df_dfc = pd.DataFrame([pred["dfc"] for pred in pred_dicts])
print(df_dfc.describe().T)
assert set(df_dfc.columns) == set(dftrain.columns)

bias = pred_dicts[0]["bias"]
dfc_prob = df_dfc.sum(axis=1) + bias
probs = pd.Series([pred["probabilities"][1] for pred in pred_dicts])
np.testing.assert_almost_equal(dfc_prob.values, probs.values, decimal=5)
np.testing.assert_almost_equal(bias, y_train.mean(), decimal=5)
females = dfeval["sex"] == "female"
assert df_dfc["sex"][females].min() > 0 > df_dfc["sex"][~females].max()

importances = est.experimental_feature_importances(normalize=True)
df_imp = pd.Series(importances)
print(df_imp)
assert df_imp.index[0] == "sex" and abs(df_imp.sum() - 1) < 1e-6
assert df_imp.is_monotonic_decreasing

regressor = tf.estimator.BoostedTreesRegressor(feature_columns, 1, n_trees=20, max_depth=3)
regressor.train(make_input_fn(dftrain, dftrain["fare"] + dftrain["age"], n_epochs=1))
rows = list(regressor.experimental_predict_with_explanations(eval_input_fn))
sums = [row["bias"] + sum(row["dfc"].values()) for row in rows]
np.testing.assert_allclose(sums, [row["predictions"][0] for row in rows], rtol=1e-4)
sizes = np.abs(list(rows[0]["dfc"].values()))
assert np.all(sizes[:-1] >= sizes[1:])
print("all done")
