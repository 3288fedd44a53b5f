"""An endpoint in a box: set up, used, interrupted, and removed, at a running service."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.endpoint.toolkit import clean_environment
from deploy.stack.free_ports import free_port
from tests.gridftp.toolkit import CLIENT, LOOPBACK
from tests.instance import Api

from .box_host import PASSWORD, PROGRAM, BoxHost

pytestmark = pytest.mark.toolkit


@pytest.fixture
def host(service: Api) -> Iterator[BoxHost]:
    folder = Path(tempfile.mkdtemp(prefix="waybill-box-"))
    folder.chmod(0o711)
    made = BoxHost(folder, service)
    if not made.works():
        shutil.rmtree(folder)
        pytest.skip("this machine does not let us have mount namespaces")
    yield made
    made.stop()
    for endpoint in made.endpoints():
        service.call("DELETE", f"/endpoint/{endpoint['id']}")
    shutil.rmtree(folder)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the time of change, the mode and the owner of the folder and all files below it."""
    found = {path: path.lstat() for path in [folder, *folder.rglob("*")]}
    return {str(path): (one.st_ctime_ns, one.st_mode, one.st_uid) for path, one in found.items()}


def copy_with(credential: Path, host: BoxHost) -> Path:
    """Copy a file with it from the box to the box; the copy."""
    data = host.folder / "data"
    data.mkdir(exist_ok=True)
    (data / "file").write_bytes(os.urandom(100_000))
    if host.root:
        os.chown(data, 4242, 4242)
    environment = clean_environment() | {"X509_CERT_DIR": str(host.box / "authority" / "certificates")}
    url = f"gsiftp://localhost:{host.port}{data}"
    command = [CLIENT, "-dcpriv", f"{url}/file", f"{url}/copy"]
    subprocess.run(command, env=environment | {"X509_USER_PROXY": str(credential)}, check=True, timeout=60)
    return data / "copy"


def test_one_command_makes_an_endpoint_that_its_users_log_in_to_with_their_passwords_and_one_more_removes_it(
    host: BoxHost,
) -> None:
    said = host.setup()
    host.start()
    assert "BEGIN CERTIFICATE" in said
    assert str(host.token.read_text()) not in said

    [endpoint] = host.endpoints()
    [server] = host.service.call("GET", f"/endpoint/{endpoint['id']}/server_list")["DATA"]
    assert (server["hostname"], server["port"], server["scheme"]) == ("localhost", host.port, "gsiftp")
    assert not endpoint["public"]
    assert endpoint["myproxy_server"] == f"localhost:{host.myproxy_port}"

    credential, complaint = host.logon(PASSWORD)
    assert credential.exists(), complaint
    copy = copy_with(credential, host)
    assert copy.read_bytes() == (copy.parent / "file").read_bytes()
    credential.unlink()
    assert "invalid password" in host.logon("not the password")[1]
    assert not credential.exists()

    assert "runs and answers" in host.call("status", "--folder", host.box)
    assert "`box run` is running" in host.remove(code=1)
    host.stop()
    assert "does not run" in host.call("status", "--folder", host.box, code=1)
    host.remove()
    assert not host.box.exists()
    assert host.endpoints() == []
    assert copy.exists()
    assert "Nothing is set up" in host.remove()


def test_a_second_setup_changes_nothing(host: BoxHost) -> None:
    host.setup()
    before, pam = snapshot(host.box), snapshot(host.etc)
    [endpoint] = host.endpoints()

    assert "Nothing to change" in host.setup()
    assert (snapshot(host.box), snapshot(host.etc)) == (before, pam)
    assert host.endpoints() == [endpoint]
    # An option stays in force after the run that set it.
    assert "Nothing to change" in host.call("setup", "--folder", host.box, "--token-file", host.token)


def test_what_is_said_differently_is_changed_and_the_authority_stays(host: BoxHost) -> None:
    host.setup()
    certificate = (host.box / "authority" / "ca.pem").read_bytes()
    [before] = host.endpoints()
    host.port = free_port()

    assert "Set up" in host.setup("--public", "--host", LOOPBACK)
    [after] = host.endpoints()
    [server] = host.service.call("GET", f"/endpoint/{after['id']}/server_list")["DATA"]
    assert after["id"] == before["id"]
    assert (after["public"], server["hostname"], server["port"]) == (True, LOOPBACK, host.port)
    assert (host.box / "authority" / "ca.pem").read_bytes() == certificate


#: `box` with SIGKILL after the n-th call of a function of `os`: python -c KILLED CHECKOUT FUNCTION N COMMAND...
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1)); name = sys.argv.pop(1); left = int(sys.argv.pop(1)); real = getattr(os, name)
def fatal(*words, **more):
    global left
    real(*words, **more); left -= 1
    if not left: os.kill(os.getpid(), signal.SIGKILL)
setattr(os, name, fatal)
from deploy.endpoint.boxed.command import main
sys.exit(main())
"""


def killed(host: BoxHost, function: str, number: int, words: list[str | Path]) -> bool:
    """Whether the run reached the call at which it is killed; otherwise it must succeed."""
    command = [host.python, "-c", KILLED, PROGRAM.parents[2], function, str(number), *words]
    done = subprocess.run(host.words(*command), capture_output=True, timeout=60)
    assert done.returncode in (0, -9), done.stderr.decode()
    return done.returncode != 0


def test_setup_killed_at_any_step_goes_on_or_is_removed(host: BoxHost) -> None:
    """Every write that must last is flushed: the n-th flush is the last thing that happens, for many n."""
    untouched = snapshot(host.etc / "pam.d").keys()
    step, interrupted = 1, 0
    while killed(host, "fsync", step, host.setup_words()):
        interrupted += 1
        if interrupted % 2:
            host.setup()
            assert "Nothing to change" in host.setup()
        host.remove()
        assert not host.box.exists()
        assert snapshot(host.etc / "pam.d").keys() == untouched
        assert host.endpoints() == []
        step += 3
    assert interrupted > 5


def test_removal_killed_at_any_step_goes_on(host: BoxHost) -> None:
    words: list[str | Path] = ["remove", "--folder", host.box, "--token-file", host.token]
    step, interrupted = 1, 0
    while host.setup() and killed(host, "unlink", step, words):
        interrupted += 1
        host.remove()
        assert not host.box.exists()
        assert host.endpoints() == []
        step += 6
    assert interrupted > 1


def test_a_port_in_use_is_said_before_anything_is_made(host: BoxHost) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, host.myproxy_port))
        other.listen()

        assert f"--myproxy-port: port {host.myproxy_port} cannot be used" in host.setup(code=1)
    host.setup()


def test_missing_packages_are_named_with_the_way_to_get_them(host: BoxHost) -> None:
    empty = host.folder / "empty"
    empty.write_bytes(b"")
    program = shutil.which("myproxy-server", path="/usr/sbin:/usr/local/sbin")
    assert program is not None
    host.cover(program, empty)
    said = host.setup(code=1)

    assert "not installed: myproxy-server" in said
    assert "install-toolkit.sh --endpoint" in said
    assert not host.box.exists()


def test_a_wrong_token_and_a_service_that_is_not_there_are_said_before_anything_is_made(host: BoxHost) -> None:
    host.token.write_text("not-a-token\n")
    assert "is the token in --token-file right" in host.setup(code=1)
    host.token.write_text("two lines\nof text\n")
    assert "does not hold a token" in host.setup(code=1)
    host.token.write_text(str(host.service.connection["token"]))
    assert "does not answer" in host.setup("--waybill", "http://127.0.0.1:9", code=1)
    assert "there is no account 'nobody-here'" in host.setup("--user", "nobody-here", code=1)
    assert "has all rights" in host.setup("--user", "root", code=1)
    assert not host.box.exists()
    assert host.endpoints() == []


def test_an_endpoint_of_the_same_name_with_other_servers_is_left_alone(host: BoxHost) -> None:
    theirs = host.service.endpoint(host.name, 2811)

    assert "with other servers already" in host.setup(code=1)
    host.remove()
    assert [one["id"] for one in host.endpoints()] == [theirs]


def test_a_reader_that_goes_away_stops_nothing(host: BoxHost) -> None:
    unread: list[str | Path] = ["sh", "-c", '"$@" | true', "sh", host.python, PROGRAM]
    host.run([*unread, *host.setup_words()])
    assert len(host.endpoints()) == 1
    host.run([*unread, "remove", "--folder", host.box, "--token-file", host.token])

    assert not host.box.exists()


def test_files_of_others_are_never_touched(host: BoxHost) -> None:
    host.box.mkdir()
    (host.box / "theirs").write_text("precious")
    assert "not of a box" in host.setup(code=1)
    (host.box / "theirs").unlink()
    host.setup()
    (host.box / "host" / "theirs").write_text("precious")

    assert "left, for there are other things in it" in host.remove()
    assert (host.box / "host" / "theirs").read_text() == "precious"
    assert not (host.box / "authority").exists()
    (host.box / "host" / "theirs").unlink()
    host.remove()
    assert not host.box.exists()


def test_a_pam_service_that_is_there_decides_and_stays(host: BoxHost) -> None:
    file = host.etc / "pam.d" / "waybill-kept"
    file.write_text("auth required pam_deny.so\naccount required pam_permit.so\n")
    host.setup("--pam-service", "waybill-kept")
    host.start()
    assert "invalid password" in host.logon(PASSWORD)[1]
    host.stop()
    host.remove()

    assert file.read_text() == "auth required pam_deny.so\naccount required pam_permit.so\n"


def test_who_is_no_longer_a_user_gets_no_certificate(host: BoxHost) -> None:
    host.setup()
    host.start()
    assert host.user in host.call("user", "--folder", host.box, "list")
    host.call("user", "--folder", host.box, "remove", host.user)

    credential, complaint = host.logon(PASSWORD)
    assert complaint
    assert not credential.exists()
    host.call("user", "--folder", host.box, "add", host.user)
    assert host.logon(PASSWORD)[0].exists()


def test_host_certificates_are_renewed_and_stolen_ones_revoked(host: BoxHost) -> None:
    host.setup()
    assert "valid for long enough" in host.call("renew", "--folder", host.box)
    old = (host.box / "host" / "gridftp.pem").read_bytes()

    said = host.call("renew", "--folder", host.box, "--revoke")
    assert "2 host certificates made anew" in said
    assert ".r0" in said
    assert (host.box / "host" / "gridftp.pem").read_bytes() != old
    host.start()
    credential, complaint = host.logon(PASSWORD)
    assert credential.exists(), complaint
    assert copy_with(credential, host).exists()
    host.stop()
    host.remove()
    assert not host.box.exists()


def test_the_units_are_such_as_systemd_understands(tmp_path: Path) -> None:
    from deploy.endpoint.boxed.services import Box
    from deploy.endpoint.boxed.settings import BoxSettings

    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    settings = BoxSettings(name="dtn", host="dtn.example.org", namespace="/O=x", waybill="https://waybill.example.org")
    for name, text in Box(Path("/etc/waybill-endpoint"), settings).units().items():
        unit = tmp_path / f"{name}.service"
        unit.write_text(text)
        done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
