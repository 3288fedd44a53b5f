"""The registry of endpoints: names, servers, permissions, activation, and operations that are done at once."""
