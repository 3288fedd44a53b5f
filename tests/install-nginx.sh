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
# The package would start a server on port 80: the tests start one of their own. 101: "not allowed" (only where nobody
# else has set a policy, and only while we install).
policy=/usr/sbin/policy-rc.d
mark="# made by install-nginx.sh of Waybill, for as long as it runs"
log=$(mktemp)
finish() {
    rm -f "$log"
    if grep -qxF "$mark" $policy 2>/dev/null; then $run rm -f $policy; fi
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
if [ ! -e $policy ]; then
    printf '#!/bin/sh\n%s\nexit 101\n' "$mark" | $run tee $policy >/dev/null
    $run chmod 755 $policy
fi
echo "Installing nginx ..."
if ! { install || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && install; }; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get could not install nginx for the tests." >&2
fi
# Nor after the next boot.
if [ -d /run/systemd/system ]; then $run systemctl disable -q nginx || true; fi
