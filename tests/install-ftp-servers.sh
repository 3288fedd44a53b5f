#!/bin/sh
# Installs vsftpd, proftpd and pure-ftpd for the tests of plain FTP. The packages exclude each other, so they are not
# installed but unpacked into a folder; no service is started.
#   install-ftp-servers.sh FOLDER
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ -x "$folder/usr/sbin/vsftpd" ] && [ -x "$folder/usr/sbin/proftpd" ] && [ -x "$folder/usr/sbin/pure-ftpd" ] && exit 0
. "$(dirname "$0")/apt-install.sh"
prepare "the tests of plain FTP servers: vsftpd, proftpd, pure-ftpd"
libraries="libhiredis0.14 libmemcached11 libmemcachedutil2 libpcre2-posix3 libsodium23 libwrap0 libpam0g libcap2"
install_packages $libraries
packages=$(mktemp -d)
chmod 755 "$packages"
cd "$packages"
if apt-get download -q vsftpd proftpd-core pure-ftpd >log 2>&1; then
    for package in *.deb; do dpkg-deb -x "$package" "$folder"; done
else
    tail -n 5 log >&2
    echo "apt-get could not download the FTP servers: their tests are skipped." >&2
fi
rm -rf "$packages"
