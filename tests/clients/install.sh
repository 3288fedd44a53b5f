#!/bin/sh
# The real clients that the tests drive, each version in an environment of its own:  tests/clients/install.sh FOLDER
# Versions and hashes come from the lock files beside this script; an environment that is up to date is left alone.
set -eu
folder=$1 here=$(dirname "$0")
python=${PYTHON:-.venv/bin/python}
mkdir -p "$folder"
for lock in "$here"/*.lock; do
    name=$(basename "$lock" .lock)
    venv="$folder/$name"
    want=$(cksum <"$lock")
    if [ "$(cat "$venv/.lock" 2>/dev/null)" = "$want" ] && "$venv/bin/python" -c 'import globus_sdk' 2>/dev/null; then continue; fi
    echo "Installing the client $name ..."
    "$python" -m venv --clear "$venv"
    # Without their own bound for certifi: not every index has that version yet.
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-deps --require-hashes -r "$lock" </dev/null
    echo "$want" >"$venv/.lock"
done
