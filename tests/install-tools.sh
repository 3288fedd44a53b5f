#!/bin/sh
# Installs small programs that tests call: curl, as the examples of the pages do, ip, for network namespaces, xmlsec1,
# with which a SAML provider of others signs, and promtool, which tries alert rules and the format of metrics.
set -eu
. "$(dirname "$0")/apt-install.sh"
if ! { command -v curl && command -v ip && command -v nft && command -v xmlsec1; } >/dev/null; then
    prepare "the tests and benchmarks that call them: curl, ip, nft, xmlsec1"
    install_packages curl iproute2 nftables xmlsec1
fi
if command -v promtool >/dev/null; then exit 0; fi
prepare "the tests of metrics and alert rules: promtool"
# Of the package prometheus only the file promtool is unpacked (45 of 96 MB): nothing is set up and no server starts.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM HUP
chmod 755 "$folder"
download() { (cd "$folder" && apt-get download -q prometheus </dev/null); }
unpack() { dpkg-deb --fsys-tarfile "$folder"/prometheus_*.deb | tar -x -C "$folder" ./usr/bin/promtool; }
echo "Installing promtool ..."
if ! { download || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && download; }; } >"$folder/log" 2>&1 ||
    ! unpack 2>>"$folder/log" || ! $run install -m 755 "$folder/usr/bin/promtool" /usr/local/bin/promtool; then
    tail -n 20 "$folder/log" >&2
    echo "promtool could not be installed." >&2
fi
