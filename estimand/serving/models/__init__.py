"""Models, their versions, and what they are loaded into. Nothing here knows of a protocol."""
