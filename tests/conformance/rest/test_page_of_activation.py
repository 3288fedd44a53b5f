"""The examples of the page about REST, as a reader types them: each form of activation, in sh and in Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest
from django.core.wsgi import get_wsgi_application
from django.db import connections

from deploy.endpoint.authority import CertificateFiles
from endpoints import registry
from endpoints.addresses.openings import parse_openings
from endpoints.registry import ServerSpec
from identity import tokens
from identity.models import User
from tests.gridftp import sshd
from tests.gridftp.authority import Authority
from tests.gridftp.myproxy import MyProxyServer
from tests.integration.activated import proxy_of
from transferapi.config import CHECKOUT

pytestmark = [pytest.mark.toolkit, pytest.mark.django_db(transaction=True)]

PAGE = (CHECKOUT / "docs" / "rest-api.md").read_text()
PASSPHRASE = "correct horse battery"


def _blocks(section: str, language: str) -> list[str]:
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def _with(language: str, word: str) -> str:
    """The one example of activation that has this word."""
    [found] = [block for block in _blocks("Activation", language) if word in block]
    return str(found)


@pytest.fixture
def service(transactional_db: None) -> Iterator[str]:
    """The whole of it behind a real socket."""

    def serve() -> None:
        server.serve_forever(poll_interval=0.05)
        connections.close_all()

    with make_server("127.0.0.1", 0, get_wsgi_application()) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(30)


@pytest.fixture
def home(
    tmp_path: Path, settings: Any, authority: Authority, identity_of: Callable[..., CertificateFiles], service: str,
    myproxy_server: MyProxyServer,
) -> Path:  # fmt: skip
    """A folder as the examples expect it, and a service with endpoints of their names."""
    settings.CERTIFICATES = authority.certificates
    settings.ALLOW_TARGETS = parse_openings("127.0.0.1/32")
    alice, identity = User.objects.create(username="alice"), identity_of("alice")
    myproxy_server.keep("alice", PASSPHRASE, identity)
    fields = {"name": "dtn", "myproxy_server": f"127.0.0.1:{myproxy_server.port}"}
    registry.create(alice, fields, [ServerSpec("dtn.example.org")])
    registry.create(alice, {"name": "cluster"}, [ServerSpec("cluster.example.org", 22, "sshftp")])
    (tmp_path / ".waybill").mkdir()
    connection = {"url": service, "token": tokens.issue(alice)}
    (tmp_path / ".waybill" / "connection.json").write_text(json.dumps(connection))
    (tmp_path / ".ssh").mkdir()
    sshd.make_key(tmp_path / ".ssh" / "waybill", "ed25519")
    (tmp_path / "x509up").write_bytes(proxy_of(identity).to_pem())
    (tmp_path / "usercert.pem").write_bytes(identity.certificate.read_bytes())
    words = ["openssl", "rsa", "-aes256", "-passout", "pass:my passphrase", "-in", str(identity.key)]
    subprocess.run([*words, "-out", str(tmp_path / "userkey.pem")], check=True, capture_output=True, timeout=30)
    return tmp_path


def _run(home: Path, command: list[str], script: str, said: str = "") -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [*command, script], cwd=home, env=environment, input=said, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("word", "said", "code"),
    [
        ("rows myproxy", PASSPHRASE + "\n", "Activated.MyProxyCredential"),
        ("rows proxy", "", "Activated.ClientProxyCredential"),
        ("rows ssh_key", "", "Activated.SshKeyCredential"),
    ],
)
def test_the_examples_for_the_shell_activate(home: Path, service: str, word: str, said: str, code: str) -> None:
    address = f"URL={service}/v0.10\n"
    start = re.sub(r"^URL=.*\n", address, _blocks("The rules in one minute", "sh")[0])
    example = _with("sh", word).replace("/tmp/x509up", "x509up")
    example = re.sub(r"grid-proxy-init .*? && ", "", example)  # the proxy is there already
    told = json.loads(_run(home, ["bash", "-ec"], start + _with("sh", "activate() {") + example, said))
    assert (told["code"], told["activated"]) == (code, True)


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ('"myproxy", username', "Activated.MyProxyCredential as"),
        ("sign_proxy", "Activated.ClientProxyCredential as"),
        ('"proxy", proxy', "Activated.ClientProxyCredential as"),
        ('"ssh_key", username', "Activated.SshKeyCredential as alice, ssh-ed25519 SHA256:"),
    ],
)
def test_the_examples_in_python_activate(home: Path, word: str, code: str) -> None:
    start = _blocks("The rules in one minute", "python")[0] + _with("python", "def activate(")
    example = _with("python", word).replace("/tmp/x509up_u1000", "x509up")
    typed = f"import getpass\ngetpass.getpass = lambda: {PASSPHRASE!r}\n"
    assert _run(home, [sys.executable, "-c"], start + typed + example).startswith(code)


def test_the_examples_for_looking_and_for_forgetting_work(home: Path, service: str) -> None:
    start = _blocks("The rules in one minute", "python")[0]
    told = _run(home, [sys.executable, "-c"], start + _with("python", 'if state["code"]'))
    assert told == "expected one of these: myproxy delegate_proxy proxy\n"
    address = f"URL={service}/v0.10\n"
    shell = re.sub(r"^URL=.*\n", address, _blocks("The rules in one minute", "sh")[0])
    told = _run(home, ["bash", "-ec"], shell + _with("sh", "dtn/deactivate"))
    for code in ("activation_requirements", "AutoActivationFailed", "Deactivated"):
        assert f'"{code}"' in told
