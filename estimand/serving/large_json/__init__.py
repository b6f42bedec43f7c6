"""JSON that is too large for the event loop: read and written by a process of its own.

Parsing holds Python's lock from the first byte to the last, whichever thread does it, and takes
twenty times the memory of what it reads. `work` is what that process does, `process` its owner's
end, `queue` who is next, `by_size` why there are two of them.
"""
