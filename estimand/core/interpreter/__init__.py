"""What Python does by itself, done otherwise: imports, cycle collection, tracebacks."""
