"""`tf.contrib.layers`: layers with the names of their variables, initializers, old columns."""
