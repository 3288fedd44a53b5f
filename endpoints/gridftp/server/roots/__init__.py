"""The served folders: paths of clients are opened beneath them, and nothing else is."""
