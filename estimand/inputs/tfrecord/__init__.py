"""`tfrecord_input_fn`: parsing in batches, keeping what is parsed, and which record is at fault."""
