"""Who am I, and with whom: the description of a cluster, its strategy, its launcher."""
