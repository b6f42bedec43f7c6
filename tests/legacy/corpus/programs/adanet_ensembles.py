"""AdaNet grows an ensemble of networks from small ones, evaluates it, and exports it."""

import sys

import adanet
import numpy as np
import tensorflow as tf

points = np.random.RandomState(0).normal(size=(256, 4)).astype("float32")
above = (points.sum(1, keepdims=True) > 0).astype("float32")


def train_input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": points}, above)).repeat().batch(32)


def eval_input_fn():
    return tf.data.Dataset.from_tensor_slices(({"x": points}, above)).batch(32)


class Builder(adanet.subnetwork.Builder):
    def __init__(self, depth):
        self._depth = depth

    def build_subnetwork(
        self,
        features,
        logits_dimension,
        training,
        iteration_step,
        summary,
        previous_ensemble=None,
    ):
        hidden = features["x"]
        for _ in range(self._depth):
            hidden = tf.compat.v1.layers.dense(hidden, 8, activation=tf.nn.relu)
        logits = tf.compat.v1.layers.dense(hidden, logits_dimension)
        summary.scalar("depth", tf.constant(float(self._depth)))
        return adanet.Subnetwork(
            last_layer=hidden,
            logits=logits,
            complexity=tf.sqrt(float(self._depth + 1)),
            shared={"depth": self._depth},
        )

    def build_subnetwork_train_op(
        self, subnetwork, loss, var_list, labels, iteration_step, summary, previous_ensemble
    ):
        return tf.compat.v1.train.AdamOptimizer(0.01).minimize(loss, var_list=var_list)

    @property
    def name(self):
        return f"dnn_{self._depth}"


class Generator(adanet.subnetwork.Generator):
    def generate_candidates(
        self,
        previous_ensemble,
        iteration_number,
        previous_ensemble_reports,
        all_reports,
        config,
    ):
        depth = 0
        if previous_ensemble:
            depth = previous_ensemble.weighted_subnetworks[-1].subnetwork.shared["depth"]
        return [Builder(depth), Builder(depth + 1)]


estimator = adanet.Estimator(
    head=tf.estimator.BinaryClassHead(),
    subnetwork_generator=Generator(),
    max_iteration_steps=20,
    evaluator=adanet.Evaluator(input_fn=eval_input_fn, steps=4),
    model_dir=sys.argv[1],
    config=tf.estimator.RunConfig(tf_random_seed=1),
)
estimator.train(train_input_fn, max_steps=40)
print(estimator.evaluate(eval_input_fn, steps=4))
print(sorted(next(estimator.predict(eval_input_fn))))
spec = {"x": tf.io.FixedLenFeature([4], tf.float32)}
receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
print(estimator.export_saved_model(sys.argv[1] + "/export", receiver_fn))
