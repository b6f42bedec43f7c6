"""`tf.contrib.learn`: the estimators of 2016, with `fit(x, y)`, on those of today."""
