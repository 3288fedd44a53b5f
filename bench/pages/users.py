"""`python -m bench.pages.users COUNT`: make so many users; their tokens, as JSON."""

from __future__ import annotations

import json
import sys

import django


def main(count: int) -> None:
    django.setup()
    from identity import tokens
    from identity.models import User

    users = [User.objects.create(username=f"reader-{number}") for number in range(count)]
    sys.stdout.write(json.dumps([tokens.issue(user) for user in users]) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
