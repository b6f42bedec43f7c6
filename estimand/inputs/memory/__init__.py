"""Data that is in memory: arrays, tables, Python iterables; and orders computed row by row."""
