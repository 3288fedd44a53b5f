#!/bin/sh
# Installs Debian's Chromium with its driver, and the program for its certificates, for the tests of the pages. Where that
# is not allowed, they are skipped.
set -eu
PATH="$PATH:/usr/sbin:/sbin"
if command -v chromedriver >/dev/null && command -v certutil >/dev/null; then exit 0; fi
. "$(dirname "$0")/apt-install.sh"
prepare "the tests of the pages: chromium and chromedriver"
install_packages chromium chromium-driver fonts-dejavu-core libnss3-tools
