"""Forms of pages: small, and without files."""

from __future__ import annotations

import io

import pytest
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.test import RequestFactory


def test_forms_of_pages_are_small_and_have_no_files() -> None:
    factory = RequestFactory()
    with pytest.raises(RequestDataTooBig):
        _ = factory.post("/", b"a=" + b"x" * (1 << 20), content_type="application/x-www-form-urlencoded").POST
    with pytest.raises(SuspiciousOperation):
        _ = factory.post("/", {"name": "alice", "file": io.BytesIO(b"x")}).POST
    assert factory.post("/", {"name": "alice"}).POST["name"] == "alice"
