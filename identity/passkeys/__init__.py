"""Passkeys (WebAuthn): keys of a device, or of a password manager, by which a user signs in without a password."""
