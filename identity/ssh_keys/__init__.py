"""The ssh public keys by which users sign in to our ssh shell."""
