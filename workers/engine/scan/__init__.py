"""The scan turns items into files: listings, patterns, filters, symbolic links, and the comparison for sync."""
