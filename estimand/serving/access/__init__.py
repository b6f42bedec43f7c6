"""Who may ask, over which connection, and how much they may send."""
