"""Keras models as estimators and back, and starting from what was learnt before."""
