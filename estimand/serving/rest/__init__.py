"""The REST API over HTTP/1.1: one bare ASGI application, and a way past it for `:predict`."""
