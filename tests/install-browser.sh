#!/bin/sh
# Installs Debian's Chromium with its driver for the tests of the pages, where we may; else says so, and they are skipped.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
if command -v chromedriver >/dev/null; then exit 0; fi
if [ "$(id -u)" = 0 ]; then run=""
elif sudo -n true </dev/null 2>/dev/null; then run="sudo -n"
else
    echo "Not installing a browser for the tests: we are neither root nor may we use sudo without a password."
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here: the tests of the pages need chromium and chromedriver."
    exit 0
fi
install() {
    $run env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends \
        chromium chromium-driver fonts-dejavu-core </dev/null
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "Installing chromium and chromium-driver ..."
if ! { install || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && install; }; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install a browser for the tests." >&2
fi
