"""TensorFlow 2.0: a Keras network, several labels, early stopping, metrics, the best export."""

import json
import os
import sys

import numpy as np
import tensorflow as tf

random = np.random.RandomState(4)
X = random.rand(80, 4).astype("float32")
PRICE = (X @ np.array([[1.0], [2.0], [-1.0], [0.5]]) + 0.3).astype("float32")
SOLD = (X[:, :1] > 0.5).astype("float32")


def make_network():
    def const(n, m):
        return tf.constant_initializer(np.linspace(-0.3, 0.35, n * m).reshape(n, m))

    inputs = tf.keras.Input([4])
    net = tf.keras.layers.Dense(6, "relu", use_bias=False, kernel_initializer=const(4, 6))(inputs)
    net = tf.keras.layers.BatchNormalization(momentum=0.9)(net)
    price = tf.keras.layers.Dense(1, name="price", kernel_initializer=const(6, 1))(net)
    sold = tf.keras.layers.Dense(1, name="sold", kernel_initializer=const(6, 1))(net)
    return tf.keras.Model(inputs, [price, sold])


def model_fn(features, labels, mode, params):
    network = make_network()
    training = mode == tf.estimator.ModeKeys.TRAIN
    price, sold = network(features["x"], training=training)
    head = tf.estimator.MultiHead(
        [tf.estimator.RegressionHead(name="price"), tf.estimator.BinaryClassHead(name="sold")],
        head_weights=[1.0, params["weight"]],
    )
    optimizer = tf.keras.optimizers.legacy.Adam(params["rate"])
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    return head.create_estimator_spec(
        features=features,
        mode=mode,
        logits={"price": price, "sold": sold},
        labels=labels,
        optimizer=optimizer,
        trainable_variables=network.trainable_variables,
        update_ops=network.get_updates_for(None) + network.get_updates_for(features["x"]),
    )


def input_fn(training):
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, {"price": PRICE, "sold": SOLD}))
    return (data.repeat() if training else data).batch(16)


def serving_input_receiver_fn():
    spec = {"x": tf.io.FixedLenFeature([4], tf.float32)}
    return tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)()


def metric_fn(labels, predictions):
    error = tf.keras.metrics.MeanAbsoluteError()
    error.update_state(labels["price"], predictions[("price", "predictions")])
    return {"mae": error}


def main(model_dir):
    config = tf.estimator.RunConfig(model_dir, tf_random_seed=5, save_checkpoints_steps=5)
    estimator = tf.estimator.Estimator(
        model_fn, config=config, params={"rate": 0.01, "weight": 2.0}
    )
    estimator = tf.estimator.add_metrics(estimator, metric_fn)
    os.makedirs(estimator.eval_dir(), exist_ok=True)
    hook = tf.estimator.experimental.stop_if_no_decrease_hook(
        estimator, "loss", max_steps_without_decrease=50, run_every_secs=None, run_every_steps=5
    )
    exporter = tf.estimator.BestExporter("best", serving_input_receiver_fn, exports_to_keep=1)
    metrics, _ = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(lambda: input_fn(True), max_steps=15, hooks=[hook]),
        tf.estimator.EvalSpec(
            lambda: input_fn(False),
            steps=None,
            exporters=[exporter],
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )
    row = next(iter(estimator.predict(lambda: input_fn(False))))
    print(
        json.dumps(
            {
                "metrics": {k: float(v) for k, v in sorted(metrics.items())},
                "row": {
                    "/".join(k): np.asarray(v).tolist()
                    for k, v in sorted(row.items())
                    if "class" not in k[1]
                },
                "exports": len(os.listdir(os.path.join(model_dir, "export", "best"))) > 0,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
