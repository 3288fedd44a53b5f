#!/bin/sh
# Makes the virtual environment, or brings it up to date with a lock file:  deploy/venv.sh VENV LOCK
# Does nothing, fast, when the environment was made from the same lock. Versions and hashes come from the lock
# file, packages from wherever this machine's pip and uv are configured to get them.
set -eu
venv=$1 lock=$2
stamp="$venv/.lock"
want=$(cat "$lock" pyproject.toml | cksum)

if [ "$(cat "$stamp" 2>/dev/null)" = "$want $lock" ] && "$venv/bin/python" -c '' 2>/dev/null; then exit 0; fi
# The lock of the tests holds all that the product needs: no need to go back to the smaller one.
if [ "$lock" = requirements.lock ] && "$venv/bin/python" -c '' 2>/dev/null; then
    want_tests="$(cat requirements-test.lock pyproject.toml | cksum) requirements-test.lock"
    if [ "$(cat "$stamp" 2>/dev/null)" = "$want_tests" ]; then exit 0; fi
fi

# These have wheels of all libraries (deploy/release/wheels.py).
python=""
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "Waybill needs Python 3.11, 3.12, 3.13 or 3.14; set PYTHON=/path/to/python3 if it has another name." >&2
    exit 1
fi

# Debian and Ubuntu split the venv module's pip off, into python3-venv.
install_venv_package() {
    export DEBIAN_FRONTEND=noninteractive
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ]; then run=""
    elif sudo -n true </dev/null 2>/dev/null; then run="sudo -n env DEBIAN_FRONTEND=noninteractive"
    else
        echo "This Python has no ensurepip. Install it, then try again: sudo apt-get install python3-venv" >&2
        exit 1
    fi
    echo "Installing python$version-venv, which this Python lacks ..."
    log=$(mktemp)
    install() { $run apt-get install -y -q --no-install-recommends "python$version-venv" </dev/null; }
    if ! { install || { $run apt-get update -q </dev/null && install; }; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        rm -f "$log"
        echo "apt-get could not install python$version-venv." >&2
        exit 1
    fi
    rm -f "$log"
}

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    "$python" -c 'import ensurepip' 2>/dev/null || install_venv_package
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
if ! "$venv/bin/uv" --version >/dev/null 2>&1; then
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input 'uv>=0.8,<1' </dev/null
fi
rm -f "$stamp"
echo "Installing what $lock names ..."
export VIRTUAL_ENV="$(cd "$venv" && pwd)"
# uv trusts the certificates that this machine trusts, as pip does.
system_certificates=/etc/ssl/certs/ca-certificates.crt
if [ -z "${SSL_CERT_FILE:-}" ] && [ -r $system_certificates ]; then export SSL_CERT_FILE=$system_certificates; fi
# pip reads settings that uv does not, such as a mirror in pip.conf: slower, it is the second try. Compiled at once: by
# root, an instance runs as an account that cannot write here.
"$venv/bin/uv" pip sync -q --compile-bytecode --require-hashes "$lock" </dev/null ||
    "$venv/bin/python" -m pip install -q --no-input --require-hashes -r "$lock" </dev/null || {
    echo "The libraries could not be installed into $PWD/$venv (see above; $(df -Ph "$venv" | awk 'END { print $4 }') free)." >&2
    echo "They have wheels for Python 3.11 to 3.14 on x86_64 and aarch64; this is $("$python" -V) on $(uname -m)." >&2
    exit 1
}
# The console script `waybill`, from this checkout; setuptools, which builds it, is in the locks.
"$venv/bin/uv" pip install -q --no-deps --no-build-isolation --offline -e . </dev/null
echo "$want $lock" >"$stamp"
