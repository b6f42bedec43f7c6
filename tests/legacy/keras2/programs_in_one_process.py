"""Small programs for tf.keras of version 2, one after the other; prints what they found, as JSON.

TF_USE_LEGACY_KERAS=1 python -m tests.legacy.keras2.programs_in_one_process [NAME...]
"""

from __future__ import annotations

import functools
import json
import logging
import sys
import tempfile
import traceback
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from tests.legacy.keras2.rates import rates_as_told_before_the_newer_optimizers

K = tf.keras
v1 = tf.compat.v1
X = np.random.RandomState(0).randn(256, 4).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int64")
STEPS = 30


def input_fn(repeat: bool = True) -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    return (rows.repeat() if repeat else rows).batch(32)


def arrays(repeat: bool = True) -> tf.data.Dataset:
    rows = tf.data.Dataset.from_tensor_slices((X, Y))
    return (rows.repeat() if repeat else rows).batch(32)


def cross_entropy(labels: Any, logits: Any) -> tf.Tensor:
    return K.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)


def model_function(make_train_op: Any) -> Any:
    """A Keras 2 network with everything that leaves something behind in a graph."""

    def model_fn(features, labels, mode):
        net = K.Sequential(
            [
                K.layers.Dense(8, "relu", kernel_regularizer=K.regularizers.l2(0.01)),
                K.layers.BatchNormalization(momentum=0.5),
                K.layers.Dropout(0.1),
                K.layers.Dense(2),
            ]
        )
        logits = net(features["x"], training=mode == "train")
        if mode == "infer":
            return est.EstimatorSpec(mode, predictions={"class": tf.argmax(logits, 1)})
        loss = cross_entropy(labels, logits) + tf.add_n(net.losses)
        if mode == "eval":
            accuracy = K.metrics.SparseCategoricalAccuracy()
            accuracy.update_state(labels, logits)
            return est.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
        return est.EstimatorSpec(mode, loss=loss, train_op=make_train_op(net, loss))

    return model_fn


def by_minimize(optimizer: Any) -> Any:
    return lambda net, loss: est.minimize(optimizer(), loss)


def by_updates(net: Any, loss: tf.Tensor) -> Any:
    optimizer = K.optimizers.Adam(0.01)
    optimizer.iterations = v1.train.get_or_create_global_step()
    updates = optimizer.get_updates(loss, net.trainable_variables)
    return tf.group(*updates, *net.updates, *net.get_updates_for(None))


def by_method(net: Any, loss: tf.Tensor) -> Any:
    optimizer = K.optimizers.legacy.SGD(lr=0.1)
    optimizer.iterations = v1.train.get_or_create_global_step()
    return optimizer.minimize(loss, net.trainable_variables)


WAYS = {
    "adam": by_minimize(lambda: K.optimizers.Adam(0.01)),
    "legacy adam": by_minimize(lambda: K.optimizers.legacy.Adam(0.01)),
    "nadam": by_minimize(lambda: K.optimizers.Nadam(0.01)),
    "updates": by_updates,
    "method": by_method,
}


def model_functions() -> dict[str, Any]:
    found = {}
    for name, way in WAYS.items():
        directory = tempfile.mkdtemp()
        for steps in (STEPS // 2, STEPS):  # the second one goes on with the first
            config = est.RunConfig(tf_random_seed=1)
            estimator = est.Estimator(model_function(way), directory, config)
            estimator.train(input_fn, max_steps=steps)
        metrics = estimator.evaluate(lambda: input_fn(repeat=False))
        moved = estimator.get_variable_value("sequential/batch_normalization/moving_mean")
        found[name] = {
            "step": int(metrics["global_step"]),
            "accuracy": float(metrics["accuracy"]),
            "moved": float(np.abs(moved).max()),
            "rows": len(list(estimator.predict(lambda: input_fn(repeat=False)))),
        }
    return found


def sequential() -> Any:
    K.backend.clear_session()  # layers are called dense and dense_1 each time
    model = K.Sequential(
        [
            K.layers.Dense(8, "relu", input_shape=(4,), kernel_regularizer="l2"),
            K.layers.BatchNormalization(),
            K.layers.Dense(2),
        ]
    )
    model.compile("adam", K.losses.SparseCategoricalCrossentropy(True), metrics=["accuracy"])
    return model


def conversion() -> dict[str, Any]:
    model = sequential()
    directory = tempfile.mkdtemp()
    before = model.get_weights()
    estimator = est.keras.model_to_estimator(model, model_dir=directory)
    estimator.train(arrays, max_steps=1)
    after = est.keras.load(directory)
    unchanged = all((a == b).all() for a, b in zip(before, model.get_weights(), strict=True))
    model.fit(X[:32], Y[:32], batch_size=32, shuffle=False, verbose=0)
    pairs = zip(after.get_weights(), model.get_weights(), strict=True)
    result = {
        "names": sorted(estimator.get_variable_names()),
        "unchanged": unchanged,
        "far from fit": max(float(np.abs(a - b).max()) for a, b in pairs),
    }
    est.keras.model_to_estimator(sequential(), model_dir=directory).train(arrays, max_steps=40)
    metrics = estimator.evaluate(lambda: arrays(repeat=False))
    loaded = est.keras.load(directory)
    loaded.compile("sgd", K.losses.SparseCategoricalCrossentropy(True), metrics=["accuracy"])
    of_keras = loaded.evaluate(X, Y, verbose=0)
    receiver = est.export.build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 4])})
    exported = estimator.export_saved_model(tempfile.mkdtemp(), receiver)
    served = est.load_model(exported)
    first = next(estimator.predict(lambda: arrays(repeat=False)))["dense_1"]
    name = tempfile.mkdtemp() + "/model.h5"
    loaded.save(name)
    of_file = est.keras.model_to_estimator(keras_model_path=name).train(arrays, max_steps=1)
    return result | {
        "metrics": {key: float(value) for key, value in metrics.items()},
        "of keras": of_keras,
        "step of file": int(of_file.get_variable_value("global_step")),
        "served": np.ravel(next(iter(served({"x": X[:1]}).values()))).tolist(),
        "predicted": first.tolist(),
    }


def several_inputs_and_outputs() -> dict[str, Any]:
    a, b = K.Input((2,), name="a"), K.Input((2,), name="b")
    both = K.layers.Dense(1, name="sum")(K.layers.concatenate([a, b]))
    model = K.Model([a, b], [both, K.layers.Dense(1, name="one")(a)])
    losses = {"sum": "mse", "one": "mae"}
    model.compile(K.optimizers.legacy.SGD(lr=0.1), losses, metrics={"sum": ["mae"]})
    rows = ({"a": X[:, :2], "b": X[:, 2:]}, {"sum": X[:, :1], "one": X[:, 1:2]})
    read = lambda: tf.data.Dataset.from_tensors(rows).repeat()  # noqa: E731
    estimator = est.keras.model_to_estimator(model, metric_names_map={"sum_mae": "error"})
    before = estimator.train(read, max_steps=1).evaluate(read, steps=1)
    after = estimator.train(read, max_steps=60).evaluate(read, steps=1)
    return {"before": float(before["error"]), "after": float(after["error"])}


def canned() -> dict[str, Any]:
    columns = [tf.feature_column.numeric_column("x", shape=(4,))]
    schedule = K.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    optimizers = {
        "adam": K.optimizers.Adam(0.01),
        "adagrad": lambda: K.optimizers.legacy.Adagrad(schedule),
        "nadam": K.optimizers.Nadam(0.01),
    }
    found = {}
    for name, optimizer in optimizers.items():
        estimator = est.DNNClassifier([4], columns, optimizer=optimizer)
        estimator.train(input_fn, max_steps=2)
        found[name] = sorted(estimator.get_variable_names())
    return found


@functools.cache
def two_replicas() -> tf.distribute.Strategy:
    """One for all programs: the collectives of two strategies in a process meet."""
    return tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])


def replicas() -> dict[str, Any]:
    """One replica with twice the rows comes to the same weights."""
    found = {}
    for name, where, size in (("one", None, 64), ("two", two_replicas(), 32)):
        K.backend.clear_session()
        model = K.Sequential([K.layers.Dense(1, input_shape=(4,), kernel_initializer="ones")])
        model.compile(K.optimizers.Adam(0.1), "mse")
        config = est.RunConfig(train_distribute=where)
        estimator = est.keras.model_to_estimator(model, config=config)
        rows = tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(size)
        estimator.train(lambda rows=rows: rows, max_steps=3)
        found[name] = estimator.get_variable_value("dense/kernel").ravel().tolist()
    return found


def layers_without_names_in_replicas() -> dict[str, Any]:
    """Each replica makes both layers; an evaluation has one replica."""

    def model_fn(features, labels, mode):
        answer = K.layers.Dense(1)(K.layers.Dense(3)(features))
        loss = tf.reduce_mean(tf.square(answer - labels))
        train_op = est.minimize(v1.train.GradientDescentOptimizer(0.1), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(model_fn, config=est.RunConfig(train_distribute=two_replicas()))
    rows = tf.data.Dataset.from_tensor_slices((X, X[:, :1])).batch(32)
    estimator.train(lambda: rows, max_steps=2)
    step = estimator.evaluate(lambda: rows)["global_step"]
    return {"step": step, "names": sorted(estimator.get_variable_names())}


def eagerly() -> dict[str, Any]:
    """The same program, traced and step by step."""
    values: dict[bool, dict[str, Any]] = {}
    for eager in (False, True):

        def model_fn(features, labels, mode):
            net = K.Sequential([K.layers.Dense(4, "relu"), K.layers.Dense(2)])
            loss = cross_entropy(labels, net(features["x"]))
            train_op = est.minimize(K.optimizers.Adam(0.01), loss, net.trainable_variables)
            return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

        config = est.RunConfig(tf_random_seed=3, run_eagerly=eager)
        estimator = est.Estimator(model_fn, tempfile.mkdtemp(), config)
        estimator.train(input_fn, steps=2)
        estimator.train(input_fn, steps=2)
        names = estimator.get_variable_names()
        values[eager] = {n: np.asarray(estimator.get_variable_value(n)).tolist() for n in names}
    return {"traced": values[False], "eager": values[True]}


def weights_in_h5() -> dict[str, Any]:
    """A trained model's weights go through a file into another one, and into a model function."""

    def make() -> Any:
        K.backend.clear_session()
        return K.Sequential([K.layers.Dense(1, input_shape=(4,), name="out")])

    first = make()
    path = f"{tempfile.mkdtemp()}/weights.h5"
    first.save_weights(path)
    second = make()
    second.load_weights(path)
    second.compile("adam", "mse")
    converted = est.keras.model_to_estimator(second)
    rows = tf.data.Dataset.from_tensors((X, X[:, :1]))
    (*predicted,) = converted.predict(lambda: rows)
    return {
        "predicted": [float(p["out"][0]) for p in predicted[:5]],
        "of keras": first.predict(X[:5], verbose=0).ravel().tolist(),
    }


def weights_in_the_model_dir() -> dict[str, Any]:
    """Saved by Keras itself where `model_to_estimator` looks for weights to begin with."""
    directory = tempfile.mkdtemp()
    model = sequential()
    model.save_weights(f"{directory}/keras/mine.ckpt")
    estimator = est.keras.model_to_estimator(sequential(), model_dir=directory)
    (predicted,) = estimator.predict(
        lambda: tf.data.Dataset.from_tensors(X), None, None, None, False
    )
    return {
        "begins from": estimator._warm_start_settings.ckpt_to_initialize_from[len(directory) :],
        "predicted": next(iter(predicted.values())).tolist(),
        "of keras": model.predict(X, verbose=0).tolist(),
    }


def optimizer_of_tensorflow_1() -> dict[str, Any]:
    model = K.Sequential([K.layers.Dense(1, input_shape=(4,), kernel_initializer="ones")])
    model.compile(v1.train.AdamOptimizer(0.1), "mse")
    estimator = est.keras.model_to_estimator(model)
    rows = tf.data.Dataset.from_tensors((X, X[:, :1])).repeat()
    before = estimator.evaluate(lambda: rows, steps=1)["loss"]
    estimator.train(lambda: rows, steps=50)
    return {"before": before, "after": estimator.evaluate(lambda: rows, steps=1)["loss"]}


def made_in_a_graph() -> dict[str, Any]:
    """As programs of TensorFlow 1 made them, with lambdas; the weights are in Keras' session."""
    with tf.Graph().as_default():
        model = K.Sequential(
            [
                K.layers.Dense(3, input_shape=(4,), kernel_initializer="ones"),
                K.layers.Lambda(lambda hidden: hidden * 0.5),
                K.layers.Dense(1, kernel_initializer="ones", name="out"),
            ]
        )
        model.compile("adam", "mse", metrics=["mae"])
        expected = model.predict(X[:5])
        estimator = est.keras.model_to_estimator(model)
    rows = tf.data.Dataset.from_tensor_slices(X[:5]).batch(5)
    predicted = [float(row["out"][0]) for row in estimator.predict(lambda: rows)]
    pairs = tf.data.Dataset.from_tensors((X, X[:, :1])).repeat()
    estimator.train(lambda: pairs, steps=5)
    return {
        "predicted": predicted,
        "of keras": expected.ravel().tolist(),
        "metrics": sorted(estimator.evaluate(lambda: pairs, steps=1)),
        "soft": estimator.config.session_config.allow_soft_placement,
    }


def own_gradients() -> dict[str, Any]:
    """An optimizer that takes the gradients itself, of the losses of examples."""

    class OnlyTheFirst(K.optimizers.legacy.SGD):
        def get_gradients(self, loss, params):
            return tf.gradients(loss[0], params)

    def model_fn(features, labels, mode):
        w = v1.get_variable("w", initializer=[0.0])
        each = features["x"] * w
        loss = tf.reduce_sum(each)
        train_op = est.minimize(OnlyTheFirst(1.0), each)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(model_fn, tempfile.mkdtemp())
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": [2.0, 50.0]}), steps=1)
    return {"w": estimator.get_variable_value("w").tolist()}


PROGRAMS = {
    "own gradients": own_gradients,
    "made in a graph": made_in_a_graph,
    "eagerly": eagerly,
    "weights in H5": weights_in_h5,
    "weights in the model_dir": weights_in_the_model_dir,
    "optimizer of TensorFlow 1": optimizer_of_tensorflow_1,
    "rates": rates_as_told_before_the_newer_optimizers,
    "model functions": model_functions,
    "conversion": conversion,
    "inputs and outputs": several_inputs_and_outputs,
    "canned": canned,
    "replicas": replicas,
    "layers of replicas": layers_without_names_in_replicas,
}


def main() -> None:
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    cpu = tf.config.list_physical_devices("CPU")[0]
    two = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, two)
    output, *wanted = sys.argv[1:]
    results: dict[str, Any] = {}
    for name in wanted or PROGRAMS:
        try:
            results[name] = PROGRAMS[name]()
        except Exception:
            results[name] = {"failed": traceback.format_exc()}
    with open(output, "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
