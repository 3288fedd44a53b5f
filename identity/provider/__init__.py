"""The OAuth2 and OpenID Connect server of this service; django-oauth-toolkit implements the protocol.

`identity.issuers.oauth` is the opposite direction: there this service is a client of other servers.
"""
