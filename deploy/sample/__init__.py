"""The sample of `make up`: the files of its two endpoints, and the first transfer between them."""
