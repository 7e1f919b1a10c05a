#!/usr/bin/env bash
# Installs Verk as a service, or runs the demo without installing anything. Run it again to upgrade.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage:
  ./install.sh demo [--cpu]        build if needed, then run the demo; nothing is installed
  sudo ./install.sh [options]      install or upgrade, and start
  sudo ./install.sh uninstall      remove the program and the service; data and settings are kept

Options:
  --from FILE     install this executable (FILE.sha256 must be beside it) or this signed bundle; default: build one
  --key FILE      public key of the bundle, for the first installation; later the installed program knows its key
  --prefix DIR    install the program to DIR/bin/verk (default /usr/local)
  --root DIR      install below DIR instead of /; creates no user and starts nothing
  --no-start      install and enable the service, but do not start it
  --cpu           build for the CPU, even if there is an NVIDIA card
If there is an NVIDIA card, the build includes a CUDA library, which is compiled for the card if nvcc 13 is installed.
TEXT
}

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

build_if_stale() {
  "$here/scripts/build_here" ${cpu:+--cpu} || fail "the build failed; the reason is above"
}

verify() {
  local file=$1 want got
  [ -f "$file" ] || fail "$file does not exist"
  [ -f "$file.sha256" ] || fail "$file.sha256 does not exist; download it from the source of the executable"
  want=$(cut -d ' ' -f 1 <"$file.sha256")
  got=$(sha256sum "$file" | cut -d ' ' -f 1)
  [ "$want" = "$got" ] || fail "$file is damaged or does not match $file.sha256 (expected $want, found $got); download both again"
}

is_bundle() { [ "$(head -c 13 "$1" 2>/dev/null)" = manifest.json ]; }

platform() {
  case $(uname -m) in
    x86_64) echo linux-x64 ;;
    aarch64) echo linux-arm64 ;;
    *) fail "Verk does not run on $(uname -m)" ;;
  esac
}

# An installed program verifies the bundle with its own key, and goes back by itself if the new version does not work.
upgrade_from_bundle() {
  local installed=$root$prefix/bin/verk
  if [ -n "$root" ]; then
    exec "$installed" upgrade "$from" --config "$root/etc/verk/config.toml" --data "$root/var/lib/verk" --service none
  fi
  exec "$installed" upgrade "$from" --config /etc/verk/config.toml
}

# The first installation: takes the executable out of the bundle and verifies it with the key that was given.
open_bundle() {
  local dir name want
  [ -n "$key" ] || fail "the first installation from a bundle needs its public key: --key release.pub"
  [ -f "$key" ] || fail "$key does not exist"
  name=verk-$(platform)
  dir=$(mktemp -d)
  trap "rm -rf '$dir'" EXIT
  tar -xf "$from" -C "$dir" manifest.json manifest.json.minisig "$name" || fail "$from is damaged, or has no $name"
  if command -v minisign >/dev/null 2>&1; then
    minisign -Vqm "$dir/manifest.json" -p "$key" || fail "$from is not signed with $key"
  else
    echo "minisign is not installed, so the program inside the bundle verifies it. This finds damage, but not every forgery."
    "$dir/$name" bundle verify "$from" --key "$key" >/dev/null || fail "$from is not signed with $key"
  fi
  want=$(grep -A 4 "\"path\": \"$name\"" "$dir/manifest.json" | sed -n 's/.*"sha256": "\([0-9a-f]*\)".*/\1/p')
  [ -n "$want" ] || fail "the manifest of $from does not name $name"
  printf '%s  %s\n' "$want" "$name" >"$dir/$name.sha256"
  from=$dir/$name
}

# Replaces a file by rename: a running program keeps the old file, and a reader never sees an incomplete one.
put() {
  local mode=$1 from=$2 to=$3
  mkdir -p "$(dirname "$to")"
  install -m "$mode" "$from" "$to.new" || fail "cannot write $to; is the disk full or read-only?"
  mv -f "$to.new" "$to"
}

make_user() {
  if id -u verk >/dev/null 2>&1; then return; fi
  command -v useradd >/dev/null 2>&1 || fail "useradd is missing; on Debian: apt-get install passwd"
  local shell=/usr/sbin/nologin
  [ -x "$shell" ] || shell=/bin/false
  useradd --system --user-group --home-dir /var/lib/verk --no-create-home --shell "$shell" verk ||
    fail "cannot create the user verk; create it by hand and run install.sh again"
}

# GPU device files belong to these groups on most systems.
join_gpu_groups() {
  local group
  for group in video render; do
    if getent group "$group" >/dev/null 2>&1; then usermod -aG "$group" verk; fi
  done
}

write_config() {
  local file=$root/etc/verk/config.toml
  if [ -e "$file" ]; then
    echo "kept    $file"
    return
  fi
  mkdir -p "$root/etc/verk"
  cat >"$file.new" <<'TEXT'
# Settings of Verk. To see all settings with defaults and meaning: verk config default
# To check this file after a change: verk config check --config /etc/verk/config.toml
data_dir = "/var/lib/verk"
TEXT
  chmod 0640 "$file.new"
  mv -f "$file.new" "$file"
  echo "wrote   $file"
}

has_systemd() { [ -z "$root" ] && [ -d /run/systemd/system ]; }

do_install() {
  if [ -z "$root" ] && [ "$(id -u)" != 0 ]; then
    fail "installing needs root: run sudo ./install.sh, or ./install.sh demo, which needs no root"
  fi
  if [ -z "$from" ]; then
    build_if_stale
    from=$here/dist/verk
  fi
  if is_bundle "$from"; then
    if [ -x "$root$prefix/bin/verk" ]; then upgrade_from_bundle; fi
    open_bundle
  fi
  verify "$from"
  [ -f "$here/config/verk.service" ] || fail "config/verk.service is missing beside install.sh; download the whole release"

  put 0755 "$from" "$root$prefix/bin/verk"
  echo "wrote   $root$prefix/bin/verk"
  mkdir -p "$root/var/lib/verk"
  chmod 0700 "$root/var/lib/verk"
  write_config
  sed "s#/usr/local/bin/verk#$prefix/bin/verk#" "$here/config/verk.service" >"$root/etc/verk/.unit"
  put 0644 "$root/etc/verk/.unit" "$root/etc/systemd/system/verk.service"
  rm -f "$root/etc/verk/.unit"
  echo "wrote   $root/etc/systemd/system/verk.service"
  if [ -z "$root" ]; then
    make_user
    join_gpu_groups
    chown verk:verk /var/lib/verk
    chown root:verk /etc/verk/config.toml
  fi
  start
}

start() {
  if has_systemd; then
    systemctl daemon-reload
    systemctl enable --quiet verk
    if [ "$no_start" = 1 ]; then
      echo "Start the service with: systemctl start verk"
      return
    fi
    systemctl restart verk || fail "the service did not start; the log says why: journalctl -u verk -n 50"
    echo "Verk is running. Status: systemctl status verk. Log with the setup link: journalctl -u verk"
  elif [ -n "$root" ]; then
    echo "Installed below $root; nothing was started."
  else
    echo "This machine has no systemd. Start the server with:"
    echo "  setpriv --reuid=verk --regid=verk --init-groups $prefix/bin/verk serve --config /etc/verk/config.toml"
  fi
}

do_uninstall() {
  if [ -z "$root" ] && [ "$(id -u)" != 0 ]; then fail "uninstalling needs root: run sudo ./install.sh uninstall"; fi
  if has_systemd && [ -e /etc/systemd/system/verk.service ]; then
    systemctl disable --now --quiet verk || true
  fi
  rm -f "$root/etc/systemd/system/verk.service" "$root$prefix/bin/verk"
  if has_systemd; then systemctl daemon-reload; fi
  local user='' remove_user=''
  if [ -z "$root" ]; then user=', the user verk' remove_user='; userdel verk'; fi # below --root no user was made
  echo "Removed the program and the service. Kept: $root/var/lib/verk (data), $root/etc/verk (settings)$user."
  echo "To remove these too: rm -rf $root/var/lib/verk $root/etc/verk$remove_user"
}

# The whole file is a function, so that bash runs nothing of an incomplete download.
main() {
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  command=install from='' key='' prefix=/usr/local root='' no_start=0 cpu=
  case "${1:-}" in
    demo)
      shift
      if [ "${1:-}" = --cpu ]; then cpu=1 && shift; fi
      build_if_stale
      exec "$here/dist/verk" demo "$@"
      ;;
    uninstall)
      command=uninstall
      shift
      ;;
  esac
  while [ $# -gt 0 ]; do
    case $1 in
      --from | --key | --prefix | --root)
        [ $# -ge 2 ] || fail "$1 needs a value"
        case $1 in
          --from) from=$2 ;;
          --key) key=$2 ;;
          --prefix) prefix=${2%/} ;;
          --root) root=${2%/} ;;
        esac
        shift 2
        ;;
      --no-start) no_start=1 && shift ;;
      --cpu) cpu=1 && shift ;;
      -h | --help) usage && exit 0 ;;
      *) usage >&2 && fail "unknown argument: $1" ;;
    esac
  done
  case $prefix in /*) ;; *) fail "--prefix must be an absolute path" ;; esac
  case $root in '' | /*) ;; *) root=$PWD/$root ;; esac
  "do_$command"
}

main "$@"
