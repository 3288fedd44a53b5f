#!/bin/sh
# Installs small programs that tests call: curl, as the examples of the pages do, ip, for network namespaces, xmlsec1,
# with which a SAML provider of others signs, a Redis with TLS, systemd-analyze, which checks units, promtool, which tries alert rules and the format of metrics,
# and ssh clients.
set -eu
. "$(dirname "$0")/apt-install.sh"
if ! { command -v curl && command -v ip && command -v nft && command -v xmlsec1; } >/dev/null; then
    prepare "the tests and benchmarks that call them: curl, ip, nft, xmlsec1"
    install_packages curl iproute2 nftables xmlsec1
fi
has_library() { PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q "$1\.so"; }
if ! { command -v plink && command -v dbclient && has_library libssh && has_library libssh2; } >/dev/null; then
    prepare "the tests of the shell with ssh clients of others: PuTTY, Dropbear, libssh, libssh2"
    install_packages putty-tools dropbear-bin libssh-4 libssh2-1
fi
if ! command -v redis-check-rdb >/dev/null; then
    prepare "the test of Sentinels with TLS: a Redis that has TLS (redis-tools starts none)"
    install_packages redis-tools
fi
if ! command -v systemd-analyze >/dev/null; then
    prepare "the tests of units: systemd-analyze"
    install_packages systemd
fi

# unpack_program PROGRAM PACKAGE NEEDS: puts /usr/bin/PROGRAM of a Debian package into /usr/local/bin. Nothing of the package is
# set up, and no server starts.
unpack_program() {
    if command -v "$1" >/dev/null; then return 0; fi
    prepare "$3: $1"
    folder=$(mktemp -d)
    chmod 755 "$folder"
    echo "Installing $1 ..."
    if ! { download "$2" || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && download "$2"; }; } >"$folder/log" 2>&1 ||
        ! unpack "$1" "$2" 2>>"$folder/log" || ! $run install -m 755 "$folder/usr/bin/$1" /usr/local/bin/"$1"; then
        tail -n 20 "$folder/log" >&2
        echo "$1 could not be installed." >&2
    fi
    rm -rf "$folder"
}
download() { (cd "$folder" && apt-get download -q "$1" </dev/null); }
unpack() { dpkg-deb --fsys-tarfile "$folder/$2"_*.deb | tar -x -C "$folder" "./usr/bin/$1"; }
folder=
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP
unpack_program promtool prometheus "the tests of metrics and alert rules"
