"""SCIM 2.0 (RFC 7643, RFC 7644): directories of institutions make, change and end users and groups here."""
