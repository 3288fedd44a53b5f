"""Programs in Python are forked from a process that has their libraries loaded, where nothing else changes by it.

`install()` puts `Popen` in the place of `subprocess.Popen` for the process of the tests. The start of `waybill`, of a
worker or of `globus` costs half a second of processor or more, most of it for loading, and the tests start thousands.

A forked program is a child of the process of the tests, with the descriptors, folder, variables, signals and process
group that it would have. Its memory and its /proc/PID/cmdline and environ are those of the process that it is forked
from. So tests of what a fresh interpreter does or shows have the marker `own_interpreter`, and no program of tests/unit
is forked.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import functools
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import forking_process
from tests.forking_process import LENGTH, PID, Request
from tests.real_clients import FOLDER, GLOBUS, environment
from transferapi.config import CHECKOUT

_PR_SET_CHILD_SUBREAPER = 36
#: Variables that are read while a program is loaded, or before: where they differ, it is not forked.
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_", "GLOBUS_SDK_ENVIRONMENT")
#: Most rooms of the product are not here: to load them takes its settings, which are those of each program.
_LOADED = [
    "asyncssh", "billiard.pool", "celery.app.amqp", "celery.app.control", "celery.app.events", "celery.app.log",
    "celery.apps.worker", "celery.backends.base", "celery.concurrency.thread", "celery.contrib.django.task",
    "celery.events.receiver", "celery.fixups.django", "celery.loaders.app", "celery.worker.autoscale",
    "celery.worker.consumer", "celery.worker.consumer.delayed_delivery", "celery.worker.strategy",
    "cryptography.hazmat.primitives.serialization.pkcs12", "dateutil.parser", "dateutil.rrule",
    "django.contrib.admin.decorators", "django.contrib.messages.constants", "django.contrib.postgres.fields",
    "django.core.cache.backends.redis", "django.core.mail.backends.smtp",
    "django.core.management.commands.migrate", "django.db.backends.postgresql.base", "django.forms",
    "django.middleware.csrf", "django.middleware.security", "django.template.loader",
    "django.templatetags.i18n", "django.test.signals", "django.views.generic", "endpoints.gridftp.client",
    "endpoints.gridftp.server.commands", "endpoints.gridftp.server.limits", "gunicorn.app.wsgiapp",
    "gunicorn.workers.gthread", "jwcrypto.jwt", "kombu.mixins", "kombu.transport.redis", "lxml.etree",
    "oauthlib.oauth2", "paramiko", "psycopg2.extras", "pygments.formatters", "redis.asyncio", "requests",
    "segno", "signxml", "tzlocal", "uritemplate", "xml.sax.expatreader", "yaml",
    "deploy.commands.up", "endpoints.ssh.accounts.account_login", "transferapi.shell.terminal.line",
    "workers.engine.slice", "workers.sessions.server_addresses",
]  # fmt: skip
_LOADED_BY_GLOBUS = [
    "globus_cli.services.auth", "globus_cli.services.transfer", "globus_sdk.globus_app", "jwt", "requests",
]  # fmt: skip
_END_SECONDS = 20

#: Whether the test that runs lets its programs be forked.
allowed = True
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class Forker:
    """A process with these modules loaded, which is started for the first program and ends with this process."""

    def __init__(self, python: str, modules: Sequence[str], environ: Mapping[str, str]) -> None:
        self._python, self._modules, self._environ = python, modules, dict(environ)
        self._namespaces = _namespaces()
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None

    def suits(self, environ: Mapping[str, str]) -> bool:
        """Whether an interpreter with these variables would begin as this process did, also in a network of a test."""
        return _read_at_start(environ) == _read_at_start(self._environ) and _namespaces() == self._namespaces

    def start(self, request: Request, descriptors: Sequence[int]) -> int:
        """The process id of the program, which is a child of this process. Raises OSError."""
        document = pickle.dumps(tuple(request))
        with self._lock:
            self._channel = self._channel or self._begin()
            _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                return _ask(self._channel, document, descriptors)
            except BaseException:
                # A test that is interrupted here leaves its answer to the next one, so that one asks another process.
                self._channel.close()
                self._channel = None
                raise
            finally:
                _prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    def _begin(self) -> socket.socket:
        ours, its = socket.socketpair()
        with its:
            words = [self._python, forking_process.__file__, str(its.fileno()), *self._modules]
            self._process = _Interpreter(
                words,
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                cwd=CHECKOUT,
                env=self._environ,
                process_group=0,
            )
        return ours

    def stop(self) -> None:
        if self._channel is not None:
            # A fork of this process may have the channel open, too.
            with contextlib.suppress(OSError):
                self._channel.shutdown(socket.SHUT_RDWR)
            self._channel.close()
            self._process.wait(_END_SECONDS)
            self._channel = None


def _ask(channel: socket.socket, document: bytes, descriptors: Sequence[int]) -> int:
    numbers = array.array("i", descriptors)
    channel.sendmsg([LENGTH.pack(len(document))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])
    channel.sendall(document)
    answer = channel.recv(PID.size, socket.MSG_WAITALL)
    if len(answer) < PID.size:
        raise OSError("the process that forks has ended")
    return int(PID.unpack(answer)[0])


def _namespaces() -> list[str]:
    """The namespaces of this thread: a test may be on a host of a network that it has made."""
    return [os.readlink(f"/proc/thread-self/ns/{kind}") for kind in ("net", "mnt")]


def _read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(_READ_AT_START)}


_OURS = Forker(sys.executable, _LOADED, os.environ)
_GLOBUS = Forker(str(FOLDER / "cli" / "bin" / "python"), _LOADED_BY_GLOBUS, environment("http://127.0.0.1", CHECKOUT))


def _forker(words: Sequence[str], folder: Path, environ: Mapping[str, str]) -> tuple[Forker, Sequence[str]] | None:
    """The process that forks this program, and its words without the interpreter. None if it starts by itself."""
    if words[0] == str(GLOBUS):
        found, rest = _GLOBUS, words
    elif words[0] == sys.executable and words[1:2] in (["-m"], ["-c"]) and folder == CHECKOUT:
        found, rest = _OURS, words[1:]
    else:
        return None
    return (found, rest) if found.suits(environ) else None


_Interpreter = subprocess.Popen


class Popen(_Interpreter):  # type: ignore[type-arg]
    """`subprocess.Popen`; its arguments and all that it does stay the same."""

    def _execute_child(
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: bool, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: int, shell: bool, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int,
        errread: int, errwrite: int, *rest: Any,
    ) -> None:  # fmt: skip
        """As CPython's, whose arguments these are, with another way to start a program that can be forked."""
        _, gid, gids, uid, umask, session, group = rest
        usual = (
            close_fds and not (executable or pass_fds or shell) and (gid, gids, uid, umask) == (None, None, None, -1)
        )
        known = preexec_fn is None or isinstance(preexec_fn, functools.partial)
        found = None
        if allowed and usual and known and isinstance(args, list | tuple):
            words = [os.fsdecode(word) for word in args]
            environ = dict(os.environ if env is None else env)
            folder = os.path.abspath(os.fspath(cwd or "."))
            found = _forker(words, Path(folder), environ)
        if found is None:
            super()._execute_child(  # type: ignore[misc]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
                p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest,
            )  # fmt: skip
            return
        forker, program = found
        group = os.getpgrp() if group == -1 else group
        descriptors = [number if given == -1 else given for number, given in enumerate((p2cread, c2pwrite, errwrite))]
        request = Request(program, environ, folder, group, session, preexec_fn)
        self.pid = forker.start(request, descriptors)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def install() -> None:
    subprocess.Popen = Popen  # type: ignore[misc]


def stop() -> None:
    for forker in (_OURS, _GLOBUS):
        forker.stop()
