"""Small parts of tf.estimator that were never public but that code in the wild imports."""
