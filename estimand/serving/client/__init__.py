"""The client of model servers, over gRPC and REST. Of the server it imports messages and codes."""
