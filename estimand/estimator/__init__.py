"""`Estimator`, and its calls: each is checked in `estimator.py` and done elsewhere.

- `training/`       one call of `train`;
- `calls/`          one call of `evaluate`, `predict`, `export_saved_model`: which model, which
                    values, which input. How batches then run is `estimand.evaluation`'s, and what
                    is written `estimand.export`'s;
- `lifecycle/`      `train_and_evaluate` and `Experiment`, which call the others;
- `workspace`       what all of them are handed: settings, model_dir, live models, warm start.

Nothing below `estimator.py` knows of an `Estimator`.
"""
