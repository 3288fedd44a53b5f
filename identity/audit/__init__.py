"""The audit log: sign-ins and their refusals, grants, changes of ways to sign in, and acts of administrators."""
