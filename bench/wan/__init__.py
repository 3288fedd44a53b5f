"""The wide-area benchmark: three hosts in network namespaces, and every tool between two of them."""
