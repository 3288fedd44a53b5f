"""Settings with https: secure cookies, and HSTS, by which browsers stay with https."""

from __future__ import annotations

import json
import subprocess
import sys

from transferapi.config import CHECKOUT

NAMES = (
    "SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY",
    "SESSION_COOKIE_SAMESITE", "CSRF_COOKIE_SAMESITE", "SECURE_HSTS_SECONDS",
)  # fmt: skip


def test_with_https_cookies_are_secure_and_bound_to_the_host_and_browsers_stay_with_it() -> None:
    program = (
        f"import json; from transferapi import settings; print(json.dumps([getattr(settings, n) for n in {NAMES}]))"
    )
    environment = {"WAYBILL_PUBLIC_URL": "https://waybill.example.org"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = dict(zip(NAMES, json.loads(done.stdout), strict=True))
    assert found["SESSION_COOKIE_NAME"].startswith("__Host-")
    assert found["CSRF_COOKIE_NAME"].startswith("__Host-")
    assert all(found[name] for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY"))
    assert (found["SESSION_COOKIE_SAMESITE"], found["CSRF_COOKIE_SAMESITE"]) == ("Lax", "Lax")
    assert found["SECURE_HSTS_SECONDS"] >= 365 * 86400
