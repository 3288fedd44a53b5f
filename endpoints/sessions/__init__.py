"""Sessions with servers of any protocol: what the registry and the workers need of them, and how they are opened."""
