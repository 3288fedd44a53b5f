#!/bin/sh
# Installs small programs that tests call: curl, as the examples of the pages do, and ip, for network namespaces.
set -eu
if command -v curl >/dev/null && command -v ip >/dev/null && command -v nft >/dev/null; then exit 0; fi
. "$(dirname "$0")/apt-install.sh"
prepare "the tests and benchmarks that call them: curl, ip, nft"
install_packages curl iproute2 nftables
