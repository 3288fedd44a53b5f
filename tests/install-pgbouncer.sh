#!/bin/sh
# Unpacks PgBouncer into a folder for the tests of poolers. The package is not installed: it would start a service.
#   install-pgbouncer.sh FOLDER
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ -x "$folder/usr/sbin/pgbouncer" ] && exit 0
. "$(dirname "$0")/apt-install.sh"
prepare "the tests of poolers: pgbouncer"
install_packages libc-ares2 libevent-2.1-7
packages=$(mktemp -d)
chmod 755 "$packages"
cd "$packages"
if apt-get download -q pgbouncer >log 2>&1; then
    for package in *.deb; do dpkg-deb -x "$package" "$folder"; done
else
    tail -n 5 log >&2
    echo "apt-get could not download PgBouncer: its tests are skipped." >&2
fi
rm -rf "$packages"
