"""The end of an account: deactivation, which takes back what acts for the user, activation, and deletion."""
