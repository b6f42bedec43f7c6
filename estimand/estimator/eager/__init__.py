"""The phases of an estimator whose model function runs eagerly."""
