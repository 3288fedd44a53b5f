"""Releases: what an operator downloads, built from one commit, the same octets each time.

`source.py` copies a commit; `packages.py` builds the archives of Python; `bill.py` writes the software bill of
materials; `image.py` builds the image without a container engine; `sums.py` writes and signs the list of hashes.
"""
