#!/bin/sh
# Installs the Grid Community Toolkit's servers and clients from Debian or Ubuntu, without asking anything. No service that
# comes with them is started, now or at the next boot.
#   install-toolkit.sh              all that the tests use; as root, or with sudo in front
#   install-toolkit.sh --endpoint   what an endpoint in a box needs, and no more (no sshd)
#   install-toolkit.sh --if-allowed for `make test`: silent when they are there, a note when we may not install
set -eu
packages="globus-gridftp-server-progs globus-gass-copy-progs globus-proxy-utils myproxy myproxy-server openssl"
programs="globus-gridftp-server globus-url-copy grid-proxy-init myproxy-server myproxy-logon openssl"
if [ "${1:-}" != --endpoint ]; then
    packages="$packages libglobus-xio-udt-driver openssh-server openssh-client"
    programs="$programs sshd"
fi
PATH="$PATH:/usr/sbin:/sbin"
export DEBIAN_FRONTEND=noninteractive

missing() {
    for program in $programs; do
        command -v "$program" >/dev/null || printf '%s ' "$program"
    done
}

if [ -z "$(missing)" ] && [ "${1:-}" = --if-allowed ]; then exit 0; fi

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

# The packages must not start their services: exit status 101 of policy-rc.d forbids it. The policy is written only where the
# machine has none, and is removed after the installation. One that a killed run has left is removed too: it would keep
# all services of this machine from starting.
policy=/usr/sbin/policy-rc.d
mark="# made by install-toolkit.sh of Waybill, for as long as it runs"
no_sshd="# there was no sshd before"
new_sshd=""
if ! command -v sshd >/dev/null || grep -qxF "$no_sshd" $policy 2>/dev/null; then new_sshd="$no_sshd"; fi
if grep -qxF "$mark" $policy 2>/dev/null; then $run rm -f $policy; fi
finish() {
    # Where no sshd was installed before, none starts at the next boot: the tests start their own.
    if [ -n "$new_sshd" ] && command -v sshd >/dev/null; then $run update-rc.d ssh disable >/dev/null 2>&1 || true; fi
    if grep -qxF "$mark" $policy 2>/dev/null; then $run rm -f $policy; fi
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
if [ ! -e $policy ]; then
    printf '#!/bin/sh\n%s\n%s\nexit 101\n' "$mark" "$new_sshd" | $run tee $policy >/dev/null
    $run chmod 755 $policy
fi

# On a machine that has just booted another apt-get often holds the lock.
install() { $run apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $packages </dev/null; }

log=$(mktemp)
echo "Installing $packages ..."
if ! { install || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && install; }; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "apt-get could not install the toolkit's GridFTP servers." >&2
    if [ "${1:-}" = --if-allowed ]; then exit 0; fi
    exit 1
fi
rm -f "$log"
if [ -n "$(missing)" ]; then
    echo "After the installation these are still missing: $(missing)" >&2
    exit 1
fi
