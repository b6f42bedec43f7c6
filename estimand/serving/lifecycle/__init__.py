"""Which versions of which models are served: found on disk, tried, loaded, swapped, unloaded."""
