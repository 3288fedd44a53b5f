"""Protection of control and data channels: certificates, TLS contexts, and who the other side must be.

Python's standard library verifies chains (with the proxies of RFC 3820) and speaks TLS; it reads no certificates beyond
that, and makes no keys. The little that GSI needs of both is here.
"""
