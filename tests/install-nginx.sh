#!/bin/sh
# Installs Debian's nginx for the tests of the server in front, where we may; else says so, and they are skipped.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
if command -v nginx >/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ]; then run=""
elif sudo -n true </dev/null 2>/dev/null; then run="sudo -n"
else
    echo "Not installing nginx for the tests: we are neither root nor may we use sudo without a password."
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here: the tests of the server in front need nginx."
    exit 0
fi
install() {
    $run env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends \
        nginx-light </dev/null
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Installing nginx ..."
if ! { install || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && install; }; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install nginx for the tests." >&2
fi
# The tests start one of their own: the package's need not listen on port 80.
if [ -d /run/systemd/system ]; then $run systemctl disable -q --now nginx || true; fi
