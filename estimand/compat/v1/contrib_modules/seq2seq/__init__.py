"""`tf.contrib.seq2seq` and `legacy_seq2seq`: decoders, what feeds them, attention, beams."""
