#!/bin/sh
# Installs small programs that tests call: curl, as the examples of the pages do, ip, for network namespaces, and
# xmlsec1, with which a SAML provider of others signs.
set -eu
if command -v curl >/dev/null && command -v ip >/dev/null && command -v nft >/dev/null && command -v xmlsec1 >/dev/null; then exit 0; fi
. "$(dirname "$0")/apt-install.sh"
prepare "the tests and benchmarks that call them: curl, ip, nft, xmlsec1"
install_packages curl iproute2 nftables xmlsec1
