"""The tables of probes in docs/operate/doctor.md and docs/operate/health.md."""

from __future__ import annotations

import os
import re

import django

from deploy.doctor.probes import PROBES


def _linked(text: str) -> str:
    """The text with links to the pages that it cites, as a page beside them has them."""
    return re.sub(r"docs/operate/([\w-]+)\.md(#[\w-]+)?", r"[\1](\1.md\2)", text)


def doctor() -> str:
    """One row for each probe of `waybill doctor`."""
    rows = [f"| `{one.name}` | {_linked(one.about)} |" for one in PROBES]
    return "\n".join(["| check | errors and warnings |", "|---|---|", *rows])


def readiness() -> str:
    """One row for each check of `/readyz`."""
    # The checks import the models.
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "transferapi.settings")
    django.setup()
    from transferapi.rest.health_checks import CHECKS

    rows = [f"| `{name}` | {_linked(one.passes_if)} | {_linked(one.otherwise)} |" for name, one in CHECKS.items()]
    return "\n".join(["| name | passes if | if it fails |", "|---|---|---|", *rows])
