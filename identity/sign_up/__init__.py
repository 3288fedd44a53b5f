"""Sign-up: who may make an account, invitations, and the link by mail that proves an address."""
