"""gRPC on an HTTP/2 front of our own: an asyncio protocol that knows unary calls and `Watch`.

grpcio's Python layer costs a call several times what answering it does. This one reads whole
frames out of what was received, knows header blocks that it has seen before, and writes the answers
of one turn of the event loop together. It is what `--grpc_backend=auto` chooses.

From the bottom: `frames` and `headers` are the bytes, `messages` gRPC's rules on top of them,
`limits` the numbers; `streams` holds one call, `connection` reads, `sending` writes, `guards`
judges the peer, `listener` has the sockets, `health` the one service that streams. Nothing here
knows of models: what it serves is a table of paths.
"""
