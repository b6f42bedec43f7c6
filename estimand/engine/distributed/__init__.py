"""The same model function on several replicas, by the strategies of `tf.distribute`."""
