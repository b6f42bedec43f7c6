"""`tf.contrib.losses`: `tf.losses` with predictions before labels, and those of distances."""
