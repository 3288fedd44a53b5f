"""The vault: encrypted credentials of users, each bound to an endpoint or to the server that issued it."""
