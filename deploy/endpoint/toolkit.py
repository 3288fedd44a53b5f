"""The programs of the Grid Community Toolkit: where they are, and the environment in which they run."""

from __future__ import annotations

import os
import shutil

SERVER = "globus-gridftp-server"
MYPROXY_SERVER = "myproxy-server"


def server_program(name: str = SERVER) -> str | None:
    """The path of a server's program; None if it is not installed."""
    # Debian installs it into /usr/sbin, which is not on the PATH of ordinary users.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def clean_environment() -> dict[str, str]:
    """Our environment, without the variables that point Grid programs to the user's own certificates."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("X509_", "GRIDMAP", "MYPROXY_"))}
