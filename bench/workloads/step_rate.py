"""Steps per second of a small network."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from environments import PROJECT, TORCH, UPSTREAM
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import dnn

_STEPS_PER_CALL = 100
_ENDLESS = 10**9


def estimand_v1(turns: Turns) -> None:
    tf, estimator = dnn.estimand_estimator()
    estimator.train(lambda: dnn.dataset(tf), hooks=[dnn.estimand_counter(turns, _STEPS_PER_CALL)])


def estimand_keras(turns: Turns) -> None:
    import keras
    import tensorflow as tf

    import estimand as est

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = _keras_layers(keras)(features["x"], training=mode == est.ModeKeys.TRAIN)
        losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        loss = losses(labels, logits)
        train_op = est.minimize(keras.optimizers.Adagrad(dnn.LEARNING_RATE), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(model_fn, model_dir=tempfile.mkdtemp())
    estimator.train(lambda: dnn.dataset(tf), hooks=[dnn.estimand_counter(turns, _STEPS_PER_CALL)])


def upstream_v1(turns: Turns) -> None:
    tf, estimator = dnn.upstream_estimator()
    estimator.train(lambda: dnn.dataset(tf), hooks=[dnn.upstream_counter(turns)])


def upstream_canned(turns: Turns) -> None:
    import tensorflow as tf

    estimator = tf.estimator.DNNClassifier(
        [10, 10],
        [tf.feature_column.numeric_column("x", shape=4)],
        n_classes=3,
        optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(dnn.LEARNING_RATE),
        model_dir=tempfile.mkdtemp(),
    )
    estimator.train(lambda: dnn.dataset(tf), hooks=[dnn.upstream_counter(turns)])


def _tf_loop(turns: Turns, *, single_threaded: bool, bare_loss: bool = False) -> None:
    """What one would write by hand: an in-graph loop over an iterator, and nothing around it.

    Its loss is the function that the v1 model function calls, or with `bare_loss` the mean of
    the bare op: the former makes 20 ops more.
    """
    import tensorflow as tf

    from estimand.core import tf_private

    step = _tf_step(tf, bare_loss)
    batches = iter(dnn.dataset(tf))

    @tf.function
    def many_steps(batches: Any) -> Any:
        loss = tf.constant(0.0)
        for _ in tf.range(_STEPS_PER_CALL):
            features, labels = next(batches)
            loss = step(features["x"], labels)
        return loss

    with tf_private.executor(single_threaded):
        while True:
            float(many_steps(batches))
            turns.tick(_STEPS_PER_CALL)


def _tf_step(tf: Any, bare_loss: bool) -> Any:
    random = np.random.default_rng(0)
    variables = []
    for inputs, units in zip(dnn.SIZES, dnn.SIZES[1:], strict=False):
        variables.append(tf.Variable(random.uniform(-0.5, 0.5, (inputs, units)).astype("f")))
        variables.append(tf.Variable(np.zeros(units, "f")))
    accumulators = [tf.Variable(tf.fill(v.shape, 0.1)) for v in variables]
    global_step = tf.Variable(0, dtype=tf.int64)

    def step(features: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            net = features
            for w, b in zip(variables[::2], variables[1::2], strict=True):
                net = tf.matmul(net, w) + b
                if w is not variables[-2]:
                    net = tf.nn.relu(net)
            if bare_loss:
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=net)
                )
            else:
                loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, net)
        gradients = tape.gradient(loss, variables)
        for variable, accumulator, gradient in zip(variables, accumulators, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdagrad(
                var=variable.handle,
                accum=accumulator.handle,
                lr=dnn.LEARNING_RATE,
                grad=gradient,
            )
        global_step.assign_add(1)
        return loss

    return step


def tf_loop(turns: Turns) -> None:
    _tf_loop(turns, single_threaded=False)


def tf_loop_single_threaded(turns: Turns) -> None:
    _tf_loop(turns, single_threaded=True)


def tf_loop_bare_loss(turns: Turns) -> None:
    _tf_loop(turns, single_threaded=True, bare_loss=True)


def _keras_layers(keras: Any) -> Any:
    hidden = [keras.layers.Dense(units, activation="relu") for units in dnn.SIZES[1:-1]]
    return keras.Sequential([keras.Input((4,)), *hidden, keras.layers.Dense(dnn.SIZES[-1])])


def _keras_fit(turns: Turns, steps_per_execution: int) -> None:
    import keras
    import tensorflow as tf

    model = _keras_layers(keras)
    model.compile(
        keras.optimizers.Adagrad(dnn.LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=steps_per_execution,
    )
    model.fit(
        dnn.dataset(tf, named=False),
        steps_per_epoch=_ENDLESS,
        verbose=0,
        callbacks=[dnn.keras_counter(turns)],
    )


def keras_fit(turns: Turns) -> None:
    _keras_fit(turns, 1)


def keras_fit_many(turns: Turns) -> None:
    _keras_fit(turns, _STEPS_PER_CALL)


def _torch_layers(torch: Any) -> Any:
    nn = torch.nn
    return nn.Sequential(
        nn.Linear(4, 10), nn.ReLU(), nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 3)
    )


def torch_loop(turns: Turns) -> None:
    import torch

    torch.set_num_threads(1)
    features, labels = (torch.from_numpy(a) for a in dnn.examples())
    model, losses = _torch_layers(torch), torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adagrad(
        model.parameters(), dnn.LEARNING_RATE, initial_accumulator_value=0.1
    )
    while True:
        chosen = torch.randint(0, len(labels), (dnn.BATCH,))
        optimizer.zero_grad(set_to_none=True)
        losses(model(features[chosen]), labels[chosen]).backward()
        optimizer.step()
        turns.tick()


def lightning_fit(turns: Turns) -> None:
    import lightning
    import torch

    torch.set_num_threads(1)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = _torch_layers(torch)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adagrad(
                self.parameters(), dnn.LEARNING_RATE, initial_accumulator_value=0.1
            )

        def on_train_batch_end(self, *arguments: Any) -> None:
            turns.tick()

    data = torch.utils.data.TensorDataset(*(torch.from_numpy(a) for a in dnn.examples()))
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=_ENDLESS)
    trainer = lightning.Trainer(
        max_steps=_ENDLESS,
        accelerator="cpu",
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
        default_root_dir=tempfile.mkdtemp(),
    )
    loader = torch.utils.data.DataLoader(data, dnn.BATCH, sampler=sampler)
    trainer.fit(Model(), loader)


_ESTIMAND = "Estimand, v1 model_fn"
_ESTIMAND_KERAS = "Estimand, Keras 3 model_fn"
_UPSTREAM = "tf.estimator, v1 model_fn"
_LOOP = "hand-written TF loop of 100"
_LOOP_SINGLE = "the same, single-threaded executor"
_LOOP_BARE = "the same with a bare loss"
_TORCH = "PyTorch loop, 1 thread"

WORKLOAD = Workload(
    title="Steps per second: network of 10 and 10 units, batch 32, Adagrad",
    contestants=[
        Contestant(_ESTIMAND, PROJECT, estimand_v1),
        Contestant(_ESTIMAND_KERAS, PROJECT, estimand_keras),
        Contestant(_UPSTREAM, UPSTREAM, upstream_v1),
        Contestant("tf.estimator, DNNClassifier", UPSTREAM, upstream_canned, in_quick=False),
        Contestant(_LOOP, PROJECT, tf_loop),
        Contestant(_LOOP_SINGLE, PROJECT, tf_loop_single_threaded),
        Contestant(_LOOP_BARE, PROJECT, tf_loop_bare_loss, in_quick=False),
        Contestant("Keras fit", PROJECT, keras_fit),
        Contestant("Keras fit, steps_per_execution=100", PROJECT, keras_fit_many),
        Contestant(_TORCH, TORCH, torch_loop),
        Contestant("Lightning, 1 thread", TORCH, lightning_fit, in_quick=False),
    ],
    baseline=[_UPSTREAM],
    targets=[
        Target(_ESTIMAND, [_UPSTREAM], at_least=8),
        Target(_ESTIMAND, [_LOOP, _LOOP_SINGLE, _LOOP_BARE, _TORCH], at_least=0.95),
    ],
    rounds=20,
    quick_rounds=4,
)
