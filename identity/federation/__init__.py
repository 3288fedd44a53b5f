"""Sign-in by other providers: what they say about a person is checked here, and becomes a `Proven` identity."""
