#!/bin/sh
# What magisd needs from outside: `deps.sh check` tells what is missing (exit status 1), `check-demo` of it what the demo needs,
# `deps.sh install` gets it (Debian packages, and npm packages by their lock files),
# `deps.sh install-dev` gets the tools of `make lint` and `make fuzz` too,
# `deps.sh install-torch` PyTorch for the tests that capture and run training steps (large): Debian's, for
#                         /usr/bin/python3, or with PYTHON=... by that Python's pip.
set -u
cd "$(dirname "$0")/.." || exit 2

BUILD_PACKAGES="gcc libc6-dev make pkg-config libmicrohttpd-dev libjansson-dev libsqlite3-dev libuv1-dev zlib1g-dev libdnnl-dev"
TEST_PACKAGES="libcriterion-dev libonnx-testdata python3 python3-onnx curl ca-certificates procps nodejs npm"
BROWSER_PACKAGES="chromium"
TORCH_PACKAGES="python3-torch python3-torchvision"
DEV_PACKAGES="git clang clang-format clang-tidy cppcheck libclang-rt-dev"

lock_folders() {
    find . -name package-lock.json -not -path '*/node_modules/*' -exec dirname {} \;
}

installed() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'
}

# A package of Debian, or the same thing from elsewhere (a compiler or node of one's own).
present() {
    case $1 in
    gcc) command -v "${CC:-gcc}" >/dev/null ;;
    make) command -v make >/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null || installed pkgconf ;;
    python3) command -v python3 >/dev/null ;;
    curl) command -v curl >/dev/null ;;
    procps) command -v ps >/dev/null ;;
    nodejs) command -v node >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    chromium) command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ;;
    git | clang | clang-format | clang-tidy | cppcheck) command -v "$1" >/dev/null ;;
    *) installed "$1" || { command -v pkg-config >/dev/null && pkg-config --exists "$(module "$1")" 2>/dev/null; } ;;
    esac
}

module() {
    case $1 in
    libmicrohttpd-dev) echo libmicrohttpd ;;
    libjansson-dev) echo jansson ;;
    libsqlite3-dev) echo sqlite3 ;;
    libuv1-dev) echo libuv ;;
    zlib1g-dev) echo zlib ;;
    libcriterion-dev) echo criterion ;;
    *) echo "none-$1" ;;
    esac
}

missing() {
    for package in "$@"; do
        present "$package" || printf '%s ' "$package"
    done
}

missing_modules() {
    for folder in $(lock_folders); do
        [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ] || printf '%s ' "$folder"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        sudo "$@"
    else
        echo "make deps: root is needed for: $*" >&2
        echo "make deps: run it as root, or install the packages by hand" >&2
        return 1
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 -o Dpkg::Options::=--force-unsafe-io "$@"
}

install_packages() {
    [ $# -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        echo "make deps: no apt-get here; please install the equivalents of: $*" >&2
        return 1
    fi
    echo "make deps: installing $*"
    apt update >/dev/null || echo "make deps: apt-get update failed; trying what is known" >&2
    apt install --no-install-recommends "$@"
}

install_modules() {
    for folder in $(missing_modules); do
        echo "make deps: npm ci in $folder"
        (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund && npm run --silent --if-present vendor &&
            touch node_modules/.package-lock.json) || return 1
    done
}

# The page's library lies in web/vendor: to build and to show it takes no node.
check_demo() {
    lacking="$(missing $BUILD_PACKAGES python3)"
    [ -z "$lacking" ] && return 0
    echo "missing: $lacking"
    return 1
}

check() {
    lacking="$(missing $BUILD_PACKAGES $TEST_PACKAGES)$(missing_modules)"
    [ -z "$lacking" ] && return 0
    echo "missing: $(missing $BUILD_PACKAGES $TEST_PACKAGES)$(missing_modules | sed 's|[^ ][^ ]*|&/node_modules|g')"
    return 1
}

install() {
    install_packages $(missing $BUILD_PACKAGES $TEST_PACKAGES "$@") || return 1
    # The browser is wanted, not needed: without it the tests say loudly what they left out.
    install_packages $(missing $BROWSER_PACKAGES) || echo "make deps: going on without a browser" >&2
    install_modules
}

torch_of() {
    "$1" -c 'import torch; print(torch.__version__)' 2>/dev/null
}

install_torch() {
    python=${PYTHON:-/usr/bin/python3}
    if ! command -v "$python" >/dev/null && [ -n "${PYTHON:-}" ]; then
        echo "make deps-torch: there is no $python" >&2
        return 1
    fi
    if [ -z "${PYTHON:-}" ]; then
        install_packages $(missing $TORCH_PACKAGES) || return 1
    elif [ -z "$(torch_of "$python")" ]; then
        "$python" -m pip install torch torchvision || return 1
    fi
    version=$(torch_of "$python") || { echo "make deps-torch: $python still has no PyTorch" >&2; return 1; }
    echo "make deps-torch: $python has PyTorch $version, for that Python alone."
    if [ -n "${PYTHON:-}" ]; then
        echo "make deps-torch: make test PYTHON=$PYTHON tests with it."
    else
        echo "make deps-torch: make test finds it there; for another Python: make deps-torch PYTHON=python3.12"
    fi
}

case ${1:-} in
check) check ;;
check-demo) check_demo ;;
install) install ;;
install-dev) install $DEV_PACKAGES ;;
install-torch) install_torch ;;
*)
    echo "usage: $0 check | check-demo | install | install-dev | install-torch" >&2
    exit 2
    ;;
esac
