# Sourced by the bash scripts. Puts a pinned Bun and the locked dependencies into this checkout and nowhere else:
# a machine needs node, npm and git. Nothing global is written, and no package's install script runs.

BUN_VERSION=1.4.4
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUN_DIR=$ROOT/.tools/bun
CACHE_DIR=$ROOT/.tools/cache

fail() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

need() {
  command -v "$1" >/dev/null 2>&1 || fail "$1 is not installed; on Debian: apt-get install $2"
}

# A service account or an empty container may have no home, or one that is not its own.
use_own_cache_without_home() {
  if [ -z "${HOME:-}" ] || [ ! -d "$HOME" ] || [ ! -w "$HOME" ]; then
    mkdir -p "$CACHE_DIR/home"
    export HOME=$CACHE_DIR/home
    export npm_config_cache=$CACHE_DIR/npm
    export BUN_INSTALL_CACHE_DIR=$CACHE_DIR/bun
  fi
}

has_pinned_bun() {
  [ "$("$BUN_DIR/node_modules/.bin/bun" --version 2>/dev/null)" = "$BUN_VERSION" ]
}

# The npm package "bun" is a shell whose install script puts the platform's executable in place; npm may refuse to run
# install scripts, so the platform's package is asked for and linked here.
install_bun() {
  need node nodejs
  need npm npm
  local platform
  case $(uname -sm) in
    "Linux x86_64") platform=bun-linux-x64 ;;
    "Linux aarch64") platform=bun-linux-aarch64 ;;
    *) fail "only Linux on x86_64 and aarch64 is supported, this is $(uname -sm)" ;;
  esac
  if ! getconf GNU_LIBC_VERSION >/dev/null 2>&1; then
    fail "glibc is needed (Debian, Ubuntu, RHEL and relatives); this system has another C library"
  fi
  echo "installing bun $BUN_VERSION into .tools/bun" >&2
  mkdir -p "$BUN_DIR"
  printf '{ "private": true }\n' >"$BUN_DIR/package.json"
  rm -rf "$BUN_DIR/node_modules" "$BUN_DIR/package-lock.json"
  npm install --prefix "$BUN_DIR" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund --no-update-notifier \
    --loglevel=error "@oven/$platform@$BUN_VERSION" >&2 ||
    fail "npm could not install bun $BUN_VERSION; check the network, or npm's registry and proxy settings"
  mkdir -p "$BUN_DIR/node_modules/.bin"
  ln -sf "../@oven/$platform/bin/bun" "$BUN_DIR/node_modules/.bin/bun"
  ln -sf bun "$BUN_DIR/node_modules/.bin/bunx"
  has_pinned_bun || fail "the installed bun does not answer with version $BUN_VERSION; remove .tools and try again"
}

install_dependencies() {
  local stamp=$ROOT/node_modules/.verk-lock
  local want
  want=$(cat "$ROOT/package.json" "$ROOT/bun.lock" | sha256sum)
  [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && return
  (cd "$ROOT" && bun install --frozen-lockfile --ignore-scripts >&2) ||
    fail "bun install failed; check the network, or that bun.lock belongs to package.json"
  printf '%s\n' "$want" >"$stamp"
}

bootstrap() {
  use_own_cache_without_home
  export DO_NOT_TRACK=1
  has_pinned_bun || install_bun
  export PATH="$BUN_DIR/node_modules/.bin:$PATH"
  install_dependencies
}
