"""The pending files in memory: how they are loaded, and how they are sorted into chunks."""
