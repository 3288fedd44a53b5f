"""Events that are sent to clients: server-sent events and webhooks. An extension of the Transfer API."""
