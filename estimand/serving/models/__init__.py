"""What a version is loaded into, and its lanes. Nothing here knows of requests or of protocols."""
