"""`learn_runner.run`, as TensorFlow 1's `contrib.learn` had it.

from estimand import learn_runner
learn_runner.run(experiment_fn, run_config=config, hparams=hparams)
"""

from __future__ import annotations

from estimand.estimator.lifecycle.experiment import run

__all__ = ["run"]
