"""The gRPC services and their messages, for grpcio's server and for `serving/lean`."""
