"""What `tf.contrib` is made of here: a table of names, and the parts that exist nowhere else."""
