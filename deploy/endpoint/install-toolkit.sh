#!/bin/sh
# Installs the Grid Community Toolkit's GridFTP server and client from Debian or Ubuntu, without asking anything.
#   install-toolkit.sh              as root, or with sudo in front
#   install-toolkit.sh --if-allowed for `make test`: silent when they are there, a note when we may not install
set -eu
packages="globus-gridftp-server-progs globus-gass-copy-progs libglobus-xio-udt-driver globus-proxy-utils
    myproxy myproxy-server openssh-server openssh-client openssl"
PATH="$PATH:/usr/sbin:/sbin"
export DEBIAN_FRONTEND=noninteractive

there() {
    for program in globus-gridftp-server globus-url-copy grid-proxy-init myproxy-server myproxy-logon sshd openssl; do
        command -v $program >/dev/null || return 1
    done
}

if there && [ "${1:-}" = --if-allowed ]; then exit 0; fi

if [ "$(id -u)" = 0 ]; then
    run=""
elif sudo -n true </dev/null 2>/dev/null; then
    run="sudo -n env DEBIAN_FRONTEND=$DEBIAN_FRONTEND"
elif [ "${1:-}" = --if-allowed ]; then
    echo "Not installing the toolkit's GridFTP servers: we are neither root nor may we use sudo without a password."
    exit 0
else
    echo "Run this as root, or with sudo: $0" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here: install the Grid Community Toolkit ($packages) by hand." >&2
    if [ "${1:-}" = --if-allowed ]; then exit 0; fi
    exit 1
fi

# A service that the package would start must not run: the tests start their own servers. 101: "not allowed".
# (Only where nothing has set a policy, and only while we install.)
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $run tee $policy >/dev/null
    $run chmod 755 $policy
    trap '$run rm -f $policy' EXIT
    trap 'exit 1' INT TERM HUP
fi

install() { $run apt-get install -y -q --no-install-recommends $packages </dev/null; }

log=$(mktemp)
echo "Installing $packages ..."
if ! { install || { $run apt-get update -q </dev/null && install; }; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "apt-get could not install the toolkit's GridFTP servers." >&2
    if [ "${1:-}" = --if-allowed ]; then exit 0; fi
    exit 1
fi
rm -f "$log"
there
