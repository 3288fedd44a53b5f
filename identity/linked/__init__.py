"""Linked identities: names of a user at other providers (OpenID Connect, SAML, MyProxy), which sign the user in."""
