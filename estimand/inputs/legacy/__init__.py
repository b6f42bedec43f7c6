"""Input functions of TensorFlow 1: tensors, queues, iterators and what feeds them."""
