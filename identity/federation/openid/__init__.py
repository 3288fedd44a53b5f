"""OpenID Connect and OAuth2 providers, at which this service is a client (relying party)."""
