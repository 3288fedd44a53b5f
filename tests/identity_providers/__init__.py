"""The sites where users of the tests sign in: real ones of others, and some that lie."""
