"""HTTPS requests to servers that users name: their addresses, and the client."""
