#!/bin/sh
# Builds versitygw, an S3 server, for the tests of object stores, where there is a Go: no Debian release has it as a package.
#   install-s3-server.sh FOLDER
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ -x "$folder/versitygw" ] && exit 0
go=$(command -v go || echo /usr/local/go/bin/go)
if [ ! -x "$go" ]; then
    echo "Not installed for the tests of object stores: there is no Go to build versitygw with."
    exit 0
fi
echo "Building versitygw, which takes some minutes ..."
log=$(mktemp)
if ! GOBIN=$folder GOFLAGS=-mod=mod "$go" install github.com/versity/versitygw/cmd/versitygw@v1.8.0 </dev/null >"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "versitygw could not be built: the tests of object stores are skipped." >&2
fi
rm -f "$log"
