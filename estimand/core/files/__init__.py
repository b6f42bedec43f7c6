"""Files without TensorFlow: written whole or not at all; checkpoints and messages, read."""
