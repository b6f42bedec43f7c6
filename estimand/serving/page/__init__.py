"""The page at `/` of the REST port: what is served, how it is doing, and a form to try it.

One HTML file that needs nothing from elsewhere, and two JSON documents that it asks for:
`/monitoring/status.json`, again and again, and `/monitoring/signatures.json`, for the form.
"""
