"""`tf.contrib.framework`: variables by scope, checkpoints, arguments by scope."""
