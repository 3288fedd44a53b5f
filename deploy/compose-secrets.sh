#!/bin/sh
# Writes what docker-compose.yml needs and is not there yet: the secrets in ./secrets, and COMPOSE_PROFILES in `.env`.
#   sh deploy/compose-secrets.sh
# Secrets of an older `.env` are taken over from it. A file that exists is never changed, so that it can run at any time.
#
# Containers have accounts of their own and must be able to read the files, so these are readable. The folder above them is
# closed: no other account of this machine gets to them.
set -eu
cd "$(dirname "$0")/.."
umask 077
command -v openssl >/dev/null || { echo "compose-secrets.sh: openssl is missing" >&2; exit 1; }
mkdir -p secrets/keys
chmod 700 secrets
chmod 755 secrets/keys

# of_env NAME: the value in `.env`, without quotes; nothing where it has none.
of_env() {
    [ -f .env ] || return 0
    sed -n "s/^[[:space:]]*$1=//p" .env | tail -n 1 | sed "s/^\\([\"']\\)\\(.*\\)\\1\$/\\2/"
}

# keep FILE: writes standard input into the file, where it is missing. Nothing unfinished gets its name.
keep() {
    [ ! -e "secrets/$1" ] || { cat >/dev/null; return 0; }
    cat >"secrets/$1.new"
    [ -s "secrets/$1.new" ] || { echo "compose-secrets.sh: secrets/$1 would be empty" >&2; exit 1; }
    chmod 644 "secrets/$1.new"
    mv "secrets/$1.new" "secrets/$1"
    echo "secrets/$1"
}

# secret FILE NAME OCTETS: from `.env`, else random.
secret() {
    found=$(of_env "$2")
    if [ -n "$found" ]; then printf '%s\n' "$found"; else openssl rand -hex "$3"; fi | keep "$1"
}

# The compose file does not read these any more from `.env`: there, nobody needs them.
secret secret-key WAYBILL_SECRET_KEY 32
secret database-password POSTGRES_PASSWORD 24
secret redis-password REDIS_PASSWORD 24
secret front-secret WAYBILL_FRONT_SECRET 32
secret keys/vault-key WAYBILL_VAULT_KEY 32
[ -e secrets/keys/oidc-key.pem ] || openssl genpkey -quiet -algorithm RSA -pkeyopt rsa_keygen_bits:2048 | keep keys/oidc-key.pem

# The profile of PostgreSQL and Redis. Without it, or with an empty value, servers elsewhere are used.
touch .env
if ! grep -q '^COMPOSE_PROFILES=' .env; then
    [ -z "$(tail -c 1 .env)" ] || echo >>.env
    echo COMPOSE_PROFILES=engines >>.env
fi
