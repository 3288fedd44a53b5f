"""Third-party transfers: two control connections, and the data connections between their servers."""
