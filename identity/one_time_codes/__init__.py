"""One-time codes (TOTP) that a user may require besides the password, and recovery codes."""
