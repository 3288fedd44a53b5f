#!/bin/sh
# The real clients and programs that the tests drive, each version in an environment of its own:  tests/clients/install.sh FOLDER
# Versions and hashes come from the files beside this script: NAME.lock has packages of Python, NAME.npm has one of npm.
# An environment that is up to date is left alone.
set -eu
folder=$1 here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-.venv/bin/python}
mkdir -p "$folder"

# uv takes a second where pip takes half a minute. pip reads settings that uv does not, such as a mirror in pip.conf.
install_locked() {
    "$(dirname "$python")/uv" pip install -q --no-deps --require-hashes --python "$1/bin/python" -r "$2" </dev/null 2>/dev/null ||
        # Without their own bound for certifi: not every index has that version yet.
        "$python" -m pip --python "$1/bin/python" install -q --disable-pip-version-check --no-input --no-deps \
            --require-hashes -r "$2" </dev/null
}

for lock in "$here"/*.lock; do
    name=$(basename "$lock" .lock)
    venv="$folder/$name"
    want=$(cksum <"$lock")
    if [ "$(cat "$venv/.lock" 2>/dev/null)" = "$want" ] && "$venv/bin/python" -c '' 2>/dev/null; then continue; fi
    echo "Installing the client $name ..."
    "$python" -m venv --clear --without-pip "$venv"
    install_locked "$venv" "$lock"
    echo "$want" >"$venv/.lock"
done

# A package of npm is one file: name, version, and its SHA-512 as npm writes it. Nothing of it is run here.
for lock in "$here"/*.npm; do
    name=$(basename "$lock" .npm)
    target="$folder/$name"
    want=$(cksum <"$lock")
    if [ "$(cat "$target/.lock" 2>/dev/null)" = "$want" ] && [ -d "$target/package" ]; then continue; fi
    echo "Installing the client $name ..."
    if ! command -v npm >/dev/null 2>&1; then
        . "$here/../apt-install.sh"
        prepare "the test of the JavaScript SDK"
        install_packages npm
    fi
    rm -rf "$target"
    mkdir -p "$target"
    read -r package version integrity <"$lock"
    (cd "$target" && npm pack --silent --ignore-scripts "$package@$version" >/dev/null 2>&1 </dev/null)
    "$python" "$here/unpack.py" "$target" "$integrity"
    echo "$want" >"$target/.lock"
done
