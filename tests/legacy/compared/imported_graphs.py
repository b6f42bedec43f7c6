"""A model that was trained before goes on as a part of another, by its graph and its checkpoint."""

import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

FOLDER = sys.argv[1]
random = np.random.RandomState(0)
X = random.normal(size=(32, 4)).astype("float32")
Y = X.sum(1, keepdims=True)


def pretrain(folder, use_resource):
    """Variables with values, a count that grows at each use, and a Saver."""
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        with tf.variable_scope("encoder", use_resource=use_resource):
            w = tf.get_variable("w", [4, 3])
            b = tf.get_variable("b", [3], initializer=tf.zeros_initializer())
            uses = tf.get_variable("uses", [], initializer=tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([tf.assign_add(uses, 1.0)]):
            tf.nn.relu(tf.matmul(x, w) + b, name="code")
        session.run(tf.global_variables_initializer())
        session.run([w.assign(np.linspace(-1, 1, 12).reshape(4, 3)), b.assign([1.0, 2.0, 3.0])])
        return tf.train.Saver().save(session, os.path.join(folder, "model.ckpt"))


def model_fn(features, labels, mode, params):
    path = params["checkpoint"]
    saver = tf.train.import_meta_graph(
        path + ".meta", import_scope="before", input_map={"x:0": features["x"]}
    )
    code = tf.get_default_graph().get_tensor_by_name("before/code:0")
    y = tf.layers.dense(code, 1, kernel_initializer=tf.ones_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"serving_default": tf.estimator.export.PredictOutput({"y": y})}
        return tf.estimator.EstimatorSpec(mode, {"y": y}, export_outputs=outputs)
    loss = tf.losses.mean_squared_error(labels, y)
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"error": tf.metrics.mean_absolute_error(labels, y)}
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    train_op = tf.train.AdamOptimizer(0.05).minimize(loss, tf.train.get_global_step())
    scaffold = tf.train.Scaffold(init_fn=lambda _, session: saver.restore(session, path))
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)


def input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(8).repeat(2)


def receiver_fn():
    x = tf.placeholder(tf.float32, [None, 4])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def asked(export):
    with tf.Graph().as_default(), tf.Session() as session:
        model = tf.saved_model.loader.load(session, ["serve"], tf.compat.as_str(export))
        signature = model.signature_def["serving_default"]
        given = {signature.inputs["x"].name: X[:3]}
        return session.run(signature.outputs["y"].name, given).ravel().tolist()


results = {}
for kind in ("reference", "resource"):
    folder = os.path.join(FOLDER, kind)
    os.makedirs(folder)
    params = {"checkpoint": pretrain(folder, kind == "resource")}
    for _ in range(2):  # the second training goes on from the first one's checkpoint
        model = tf.estimator.Estimator(model_fn, os.path.join(folder, "run"), params=params)
        model.train(input_fn, steps=5)
    results[kind] = {
        "metrics": {name: float(value) for name, value in model.evaluate(input_fn).items()},
        "predictions": [float(row["y"][0]) for row in model.predict(input_fn)][:3],
        "export": asked(model.export_saved_model(os.path.join(folder, "export"), receiver_fn)),
        "variables": {
            name: np.ravel(model.get_variable_value(name))[:4].tolist()
            for name in model.get_variable_names()
        },
    }
print(json.dumps(results))
