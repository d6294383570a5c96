# Shared by the scripts: they work in the checkout, speak in steps, and know how packages get onto this machine.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
# shellcheck disable=SC2034  # for those who source this
VENV=.venv
LACKING=()   # Debian packages that could not be installed

say() { printf '==> %s\n' "$*"; }
warn() { printf '==> %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ]; }
can_install() { [ "$(id -u)" = 0 ] && have apt-get; }

# Does apt know the package? (Its lists may be empty on a fresh machine.)
in_apt() { [[ $(apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]; }

refresh_apt() {
    [ -z "${APT_FRESH:-}" ] || return 0
    say "apt-get update"
    # A third-party source that fails must not stop Debian's own.
    apt-get -qq update || warn "apt-get update: not every source answered"
    APT_FRESH=1
}

# install PACKAGE…: now where that is allowed, else remembered for the report at the end.
install_packages() {
    if ! can_install; then
        LACKING+=("$@")
        return 1
    fi
    refresh_apt
    say "apt-get install $*"
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$@" >/dev/null </dev/null
}

# The first Python of at least 3.11 that can make a virtual environment ($PYTHON goes first).
find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

engine_answers() { timeout 20 docker info >/dev/null 2>&1; }

wait_for_engine() {
    local tries
    for ((tries = $1; tries > 0; tries--)); do
        if engine_answers; then return 0; fi
        sleep 1
    done
    return 1
}
