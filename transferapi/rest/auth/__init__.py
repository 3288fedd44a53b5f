"""The Auth API: OAuth2, OpenID Connect, identities, applications, tokens and certificate subjects."""
