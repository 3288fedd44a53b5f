#!/bin/sh
# The command of an operator, for root: `waybill` with the settings and the account of the service, as its units have them.
set -eu
settings=/etc/waybill/waybill.env
if [ "$(id -u)" != 0 ]; then
    echo "waybill: run this as root; it takes the account of the service itself" >&2
    exit 77
fi
if [ ! -e "$settings" ]; then
    echo "waybill: $settings is missing: docs/operate/install.md says how to make it" >&2
    exit 78
fi
exec systemd-run --quiet --pty --pipe --wait --collect --property=User=waybill --property=UMask=0077 \
    --property=LimitNOFILE=65536 --property=LimitCORE=0 --property=TasksMax=1024 \
    --property=EnvironmentFile="$settings" --property=EnvironmentFile=-/etc/waybill/host.env \
    --setenv=WAYBILL_HOME=/var/lib/waybill --setenv=TMPDIR=/var/tmp -- /opt/waybill/bin/waybill "$@"
