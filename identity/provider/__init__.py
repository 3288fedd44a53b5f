"""The OAuth2 and OpenID server: who may speak for a user, and how (django-oauth-toolkit does the protocol).

Not to be confused with `identity.oauth`, by which we are a client of other sites' servers.
"""
