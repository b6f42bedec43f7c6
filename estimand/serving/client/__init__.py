"""The client of model servers, over gRPC and REST. It imports nothing of the server's."""
