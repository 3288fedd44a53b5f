#!/bin/sh
# Installs Debian's nginx and HAProxy for the tests of the front servers. Where that is not allowed, they are skipped.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
if command -v nginx >/dev/null && command -v haproxy >/dev/null; then exit 0; fi
. "$(dirname "$0")/apt-install.sh"
prepare "the tests of the front servers: nginx, haproxy"
# The packages would start servers; the tests start their own. Exit status 101 of a policy forbids that. The
# policy exists only while this script runs, and only where the machine has none.
policy=/usr/sbin/policy-rc.d
mark="# made by install-nginx.sh of Waybill, for as long as it runs"
finish() {
    if grep -qxF "$mark" $policy 2>/dev/null; then $run rm -f $policy; fi
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
if [ ! -e $policy ]; then
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" | $run tee $policy >/dev/null
    $run chmod 755 $policy
fi
install_packages nginx-light haproxy
# They do not start at the next boot either.
if [ -d /run/systemd/system ]; then $run systemctl disable -q nginx haproxy || true; fi
