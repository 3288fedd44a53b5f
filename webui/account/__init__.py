"""The account page: the ways of a user to sign in, and the programs that act for the user."""
