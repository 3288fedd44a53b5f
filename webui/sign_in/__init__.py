"""Pages of signing in: the password, the consent to an application, and the code to copy."""
