"""The TLS context of requests: shared for a minute, and made anew where other authorities are to be trusted."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from identity.http.https_client import client_context
from tests.waiting import eventually


def test_requests_share_a_context_that_checks_names_and_certificates(tmp_path: Path) -> None:
    made = client_context()
    assert made is client_context() is client_context(tmp_path / "missing")
    assert made.check_hostname
    assert (made.verify_mode, made.minimum_version) == (ssl.CERT_REQUIRED, ssl.TLSVersion.TLSv1_2)
    assert client_context(tmp_path) is not made


def test_the_authorities_are_read_anew_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("identity.http.https_client.FRESH_SECONDS", 0.5)
    before = client_context()
    eventually(lambda: client_context() is not before)


def test_other_authorities_of_the_system_make_another_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = client_context()
    (tmp_path / "none.pem").touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert client_context() is not before
