"""An export read again: its signatures as functions of arrays, and of rows.

Knows nothing of how exports are written, which is what lies beside this folder.
"""
