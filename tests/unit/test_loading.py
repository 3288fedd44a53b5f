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


def test_the_roles_of_make_up_import_nearly_nothing_after_the_fork() -> None:
    """Modules that a role imports itself are not shared with the others: they were half of the memory of a worker."""
    script = """
import sys
from deploy.stack import forked
forked.load({})
before = set(sys.modules)
from transferapi.schema_version import migrations_of_code
from transferapi.tasks.upkeep import service_processes
from django.core.handlers.wsgi import WSGIHandler
from django.urls import get_resolver
migrations_of_code(), service_processes.known_changes(), WSGIHandler(), get_resolver().url_patterns
from workers.celery import app
app.finalize(), app.amqp, app.Worker
new = sorted(set(sys.modules) - before)
sys.exit(" ".join(new) if len(new) > 10 else 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_what_is_loaded_before_programs_of_tests_are_forked_exists_and_reads_no_settings() -> None:
    """Settings that are read before the fork would be those of all programs."""
    script = """
import importlib, sys
from tests import forking
for name in forking._LOADED:
    importlib.import_module(name)
from django.conf import settings
sys.exit("transferapi.settings" if "transferapi.settings" in sys.modules or settings.configured else 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
