"""The sessions of a worker with servers: opened, kept warm, guarded for shared endpoints, and made into lanes."""
