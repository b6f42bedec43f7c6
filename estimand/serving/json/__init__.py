"""JSON bodies to arrays and back, as TensorFlow Serving reads and writes them."""
