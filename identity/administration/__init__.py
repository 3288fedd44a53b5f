"""Administration of users by staff and the operator: the account of one user, and the end of an account."""
