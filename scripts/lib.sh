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

# A service account or a container may have no home directory, or one it cannot write.
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

# Name of the npm package with Bun's executable for an architecture as `uname -m` prints it, and the sha512 of that
# package at $BUN_VERSION, as npm writes it. A new version of Bun needs both hashes: npm view PACKAGE@VERSION dist.integrity
bun_package() {
  case $1 in
    x86_64) echo bun-linux-x64 ;;
    aarch64) echo bun-linux-aarch64 ;;
    *) fail "Verk is built on x86_64 and aarch64, not on $1" ;;
  esac
}

bun_integrity() {
  case $1 in
    x86_64) echo sha512-CHbbkmHVM28T1GFq+6GL4Ao4ujwwYwj1CxFFwEFzLanPfNsId9AhbIP0Q4reWuWBkGimUkoQygrK7Rgjtj3vog== ;;
    aarch64) echo sha512-ZTVtpf9zmHSBVPX1sBwe5agGb/rN34yPGg/Hby8e2Ax2uCUA2URZKlZH7qLntK7qaFJCMXh9v0GWNYN2zINz1w== ;;
  esac
}

integrity_of() {
  node -e '
    const { createHash } = require("crypto");
    const { readFileSync } = require("fs");
    console.log("sha512-" + createHash("sha512").update(readFileSync(process.argv[1])).digest("base64"));
  ' "$1"
}

# fetch_bun MACHINE DIR: puts the package into DIR. The hash is checked before anything is unpacked.
# The npm package "bun" only has an install script that fetches the executable, and npm may not run install scripts.
# So the package of the platform is fetched directly.
fetch_bun() {
  local package want got temp
  need node nodejs
  need npm npm
  need tar tar
  package=$(bun_package "$1") || exit 1
  want=$(bun_integrity "$1")
  temp=$2.$$
  rm -rf "$temp"
  mkdir -p "$temp/unpacked"
  npm pack --ignore-scripts --no-update-notifier --loglevel=error --pack-destination "$temp" \
    "@oven/$package@$BUN_VERSION" >/dev/null ||
    fail "npm could not fetch bun $BUN_VERSION; check the network, or npm's registry and proxy settings"
  got=$(integrity_of "$temp"/*.tgz) || fail "npm left no package in $temp"
  if [ "$got" != "$want" ]; then
    rm -rf "$temp"
    fail "@oven/$package@$BUN_VERSION does not match the hash in scripts/lib.sh (expected $want, got $got); check npm's registry setting"
  fi
  tar -xzf "$temp"/*.tgz -C "$temp/unpacked"
  rm -rf "$2"
  mkdir -p "$(dirname "$2")"
  mv "$temp/unpacked/package" "$2"
  rm -rf "$temp"
  chmod +x "$2/bin/bun"
}

install_bun() {
  local machine package
  [ "$(uname -s)" = Linux ] || fail "Verk is built on Linux, not on $(uname -s)"
  if ! getconf GNU_LIBC_VERSION >/dev/null 2>&1; then
    fail "glibc is required (Debian, Ubuntu, RHEL and relatives); this system has another C library"
  fi
  machine=$(uname -m)
  package=$(bun_package "$machine") || exit 1
  echo "installing bun $BUN_VERSION into .tools/bun" >&2
  rm -rf "$BUN_DIR"
  fetch_bun "$machine" "$BUN_DIR/node_modules/@oven/$package"
  mkdir -p "$BUN_DIR/node_modules/.bin"
  ln -sf "../@oven/$package/bin/bun" "$BUN_DIR/node_modules/.bin/bun"
  ln -sf bun "$BUN_DIR/node_modules/.bin/bunx"
  has_pinned_bun || fail "the installed bun does not report version $BUN_VERSION; remove .tools and try again"
}

# foreign_bun MACHINE: prints the path of Bun's executable for another architecture. Fetches it if it is missing.
foreign_bun() {
  local dir=$ROOT/.tools/bun-$BUN_VERSION-$1
  [ -x "$dir/bin/bun" ] || fetch_bun "$1" "$dir"
  echo "$dir/bin/bun"
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
