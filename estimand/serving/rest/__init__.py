"""The REST API over HTTP/1.1.

A `Connection` reads requests and sends their answers in order; each request is an `Exchange`, which
`Api` gives to what answers it. What is asked of a model is a `RestPrediction`.
"""
