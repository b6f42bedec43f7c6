"""Running batches through a model that is not trained meanwhile: `evaluate` and `predict`.

They are given a traced model with its variables and an input. Which checkpoint these are from, and
what becomes of the results, others decide (`estimand.estimator.calls`).
"""
