"""Users, their tokens and ways to sign in, groups, and the credentials that users give to the service."""
