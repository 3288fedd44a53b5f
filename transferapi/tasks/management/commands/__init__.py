"""`migrate`, with bounded waits for locks."""
