"""A certificate that Chromium shows to one site without asking: an NSS database in a home of its own, and a policy.

    home = home_with(folder / "home", alice, authority)
    with chooses("https://localhost:8443"), Chromium(folder, home) as browser:

Chromium reads policies from a folder of the system only, so that root is needed. certutil and pk12util are of the
package libnss3-tools, which `tests/install-browser.sh` installs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.endpoint.authority import CertificateFiles, openssl
from tests.gridftp.authority import Authority

#: Of Debian's Chromium.
POLICIES = Path("/etc/chromium/policies/managed")
SECONDS = 60


def installed() -> bool:
    return all(map(shutil.which, ("certutil", "pk12util")))


def home_with(home: Path, identity: CertificateFiles, authority: Authority) -> Path:
    """A home folder where Chromium finds the certificate with its key, and trusts the authority for servers."""
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    where = ["-d", f"sql:{database}"]
    _run("certutil", "-N", *where, "--empty-password")
    root = next(authority.certificates.glob("*.0"))
    _run("certutil", "-A", *where, "-n", "authority", "-t", "C,,", "-i", str(root))
    bundle = home / "identity.p12"
    words = ["pkcs12", "-export", "-in", str(identity.certificate), "-inkey", str(identity.key), "-passout", "pass:x"]
    bundle.write_bytes(openssl(words))
    _run("pk12util", "-i", str(bundle), *where, "-W", "x", "-K", "")
    bundle.unlink()
    return home


@contextmanager
def chooses(origin: str) -> Iterator[None]:
    """Within this block, a Chromium that is started shows its only certificate to this origin without asking."""
    made = [folder for folder in (POLICIES.parent, POLICIES) if not folder.exists()]
    POLICIES.mkdir(parents=True, exist_ok=True)
    path = POLICIES / f"waybill-test-{uuid.uuid4().hex}.json"
    choice = json.dumps({"pattern": origin, "filter": {}})
    path.write_text(json.dumps({"AutoSelectCertificateForUrls": [choice]}))
    try:
        yield
    finally:
        path.unlink()
        for folder in reversed(made):
            folder.rmdir()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=SECONDS)
