"""The RSA keys that sign identity tokens: their file, and their rotation without a break."""
