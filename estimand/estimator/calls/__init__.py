"""One call of evaluate, predict or export_saved_model: what it is given, found, and told.

The batches go through the model in `estimand.evaluation`; a call of train is `estimator/training`.
"""
