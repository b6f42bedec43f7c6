"""`tf.contrib.rnn`, `cudnn_rnn` and `legacy_seq2seq`: cells beyond those of `tf.nn.rnn_cell`."""
