"""Packages that roles load at their start: one that few roles use costs each of them time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_no_role_but_the_workers_and_the_shell_loads_an_ssh_library_or_celery_at_its_start() -> None:
    script = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "transferapi.settings"
import django
django.setup()
import transferapi.relay.main, transferapi.urls
unwanted = ("asyncssh", "paramiko", "celery", "opentelemetry.sdk.trace")
sys.exit(" ".join(name for name in unwanted if name in sys.modules) or 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
