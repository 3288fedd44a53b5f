"""Users and groups that a directory manages by SCIM 2.0 (RFC 7643, RFC 7644)."""
