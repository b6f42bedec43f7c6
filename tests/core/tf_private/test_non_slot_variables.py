"""An optimizer as people wrote them: a counter that it asks for by the graph of the moment."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


class Growing(v1.train.GradientDescentOptimizer):
    """Each step is as many times longer as there were steps before."""

    def compute_gradients(self, loss: Any, var_list: Any = None, **others: Any) -> Any:
        variables = var_list or v1.trainable_variables()
        self._create_non_slot_variable(0.0, "taken", colocate_with=variables[0])
        taken = self._get_non_slot_variable("taken", graph=v1.get_default_graph())
        with tf.control_dependencies([taken.assign_add(1.0, read_value=False)]):
            factor = taken.read_value()
        pairs = super().compute_gradients(loss, variables, **others)
        return [(gradient * factor, variable) for gradient, variable in pairs]


def test_a_counter_is_found_by_the_graph_of_the_model() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = v1.get_variable("w", initializer=0.0) * features["x"]
        train_op = Growing(1.0).minimize(loss, global_step=v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(model_fn, config=est.RunConfig(progress=False))
    estimator.train(lambda: tf.data.Dataset.from_tensors({"x": 1.0}).repeat(), steps=3)
    assert estimator.get_variable_value("w") == -(1.0 + 2.0 + 3.0)
