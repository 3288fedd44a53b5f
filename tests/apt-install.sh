# Sourced by the scripts that install a program for the tests: installs Debian packages where that is allowed.

# prepare NEEDS: sets $run to the command that gives root rights. Ends the script, with a reason, where packages cannot
# be installed: the tests that need them are then skipped. NEEDS: what needs the packages.
prepare() {
    if [ "$(id -u)" = 0 ]; then run=""
    elif sudo -n true </dev/null 2>/dev/null; then run="sudo -n"
    else
        echo "Not installed for $1: this account is not root and cannot use sudo without a password."
        exit 0
    fi
    if ! command -v apt-get >/dev/null; then
        echo "Not installed for $1: there is no apt-get."
        exit 0
    fi
}

# install_packages PACKAGE ...: from the lists of packages that are there, or else after an update. Shows the end of the log
# where it fails, and returns 0: without the packages the tests are skipped.
install_packages() {
    log=$(mktemp)
    echo "Installing $* ..."
    if ! { apt_get_install "$@" || { $run apt-get -o DPkg::Lock::Timeout=300 update -q </dev/null && apt_get_install "$@"; }; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        echo "apt-get could not install $*." >&2
    fi
    rm -f "$log"
}

apt_get_install() {
    $run env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends \
        "$@" </dev/null
}
