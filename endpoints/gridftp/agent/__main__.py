"""`python -m endpoints.gridftp.agent`: the agent from a checkout, for developers."""

import sys

from .program import main

if __name__ == "__main__":
    sys.exit(main("development"))
