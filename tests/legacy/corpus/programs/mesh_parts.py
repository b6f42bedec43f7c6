"""Mesh TensorFlow: a model in four parts, with the hooks by which it restores and saves."""

import sys

import mesh_tensorflow as mtf
import numpy as np
import tensorflow.compat.v1 as tf

BATCH = 16
random = np.random.RandomState(0)
x = random.normal(size=(160, 6)).astype("float32")
y = x.sum(1, keepdims=True)


def model_fn(features, labels, mode, params):
    graph = mtf.Graph()
    mesh = mtf.Mesh(graph, "mesh")
    rows, columns = mtf.Dimension("rows", BATCH), mtf.Dimension("columns", 6)
    hidden, one = mtf.Dimension("hidden", 8), mtf.Dimension("one", 1)
    given = mtf.import_tf_tensor(mesh, features, mtf.Shape([rows, columns]))
    inner = mtf.layers.dense(given, hidden, [columns], activation=mtf.relu, name="inner")
    answer = mtf.layers.dense(inner, one, [hidden], name="answer")
    updates = []
    if mode != "infer":
        wanted = mtf.import_tf_tensor(mesh, labels, mtf.Shape([rows, one]))
        loss = mtf.reduce_mean(mtf.square(answer - wanted))
    if mode == "train":
        variables = graph.trainable_variables
        gradients = mtf.gradients([loss], [v.outputs[0] for v in variables])
        updates = mtf.optimize.AdafactorOptimizer().apply_grads(gradients, variables)
    parts = mtf.placement_mesh_impl.PlacementMeshImpl(
        mtf.convert_to_shape("a:2;b:2"), mtf.convert_to_layout_rules("rows:a;hidden:b"), [""] * 4
    )
    lowering = mtf.Lowering(graph, {mesh: parts})
    restoring = mtf.MtfRestoreHook(lowering)
    answers = lowering.export_to_tf_tensor(answer)
    if mode == "infer":
        return tf.estimator.EstimatorSpec(
            mode, predictions={"answer": answers}, prediction_hooks=[restoring]
        )
    tf_loss = lowering.export_to_tf_tensor(loss)
    if mode == "eval":
        return tf.estimator.EstimatorSpec(mode, loss=tf_loss, evaluation_hooks=[restoring])
    ops = [lowering.lowered_operation(op) for op in updates]
    train_op = tf.group(*ops, tf.assign_add(tf.train.get_global_step(), 1))
    saver = tf.train.Saver(tf.global_variables(), sharded=True)
    tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    saving = tf.train.CheckpointSaverHook(
        params["folder"],
        save_steps=10,
        saver=saver,
        listeners=[mtf.MtfCheckpointSaverListener(lowering)],
    )
    return tf.estimator.EstimatorSpec(
        mode, loss=tf_loss, train_op=train_op, training_chief_hooks=[restoring, saving]
    )


def input_fn(epochs=1):
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat(epochs).batch(BATCH)


folder = sys.argv[1]
estimator = tf.estimator.Estimator(model_fn, folder, params={"folder": folder})
losses = []
for _ in range(2):  # the second goes on from what the first has saved
    estimator.train(lambda: input_fn(3))
    losses.append(estimator.evaluate(input_fn)["loss"])
print(losses)
assert losses[1] < losses[0]
assert len(list(estimator.predict(input_fn))) == len(x)
