"""Protobuf messages as text, as bytes and as arrays. Nothing here knows of a model or a server."""
