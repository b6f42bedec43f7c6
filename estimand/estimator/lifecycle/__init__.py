"""The whole life of a model in one call: train, checkpoint, evaluate, export, resume."""
