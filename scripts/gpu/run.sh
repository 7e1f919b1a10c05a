#!/bin/sh
# Runs the check of scripts/gpu/main.ts where nothing is installed. Lies beside what scripts/gpu/pack made.
set -eu

usage() {
  cat <<'TEXT'
Usage: run.sh --libs DIR [--libs DIR]… [--out DIR] [--quick] [--cpu] [part…]
  --libs DIR   native libraries, as they are or as NAME.xz and NAME.tar.xz: those of llama.cpp (libllama…, libggml…),
               libggml-cuda….so; also bun or bun.xz where there is none on PATH, and verk-kernels.fatbin or
               verk-decode.fatbin in the place of those that lie beside this script
  --out DIR    where report.txt and report.json go (default: the current directory)
Parts: gradients merged families repeated sharing exact learning ranks rolling same_bits memory quantized peft transformers training rollouts grpo_step grpo_profile; all of them by default.
VERK_PYTHON names another python3 (with torch, transformers, peft), VERK_GPU_WORK a folder that is used again
(default /tmp/verk-gpu): what was unpacked there by an earlier call need not be carried again.
Without a part but with `none`, it only unpacks.
TEXT
}

here=$(cd "$(dirname "$0")" && pwd)
work=${VERK_GPU_WORK:-/tmp/verk-gpu}
case $(uname -m) in
  x86_64) name=linux-x64 cuda=x86_64-linux ;;
  aarch64) name=linux-arm64 cuda=sbsa-linux ;;
  *) echo "run.sh: Verk does not run on $(uname -m)" >&2 && exit 2 ;;
esac
libs=$work/node_modules/@node-llama-cpp/$name/bins/$name
shim=$work/.stage/shim/verk-shim.so
out=$PWD
mkdir -p "$work/bin" "$work/a/b/c" "$libs" "$(dirname "$shim")"

unpack() {
  for file in "$1"/*; do
    name=$(basename "$file")
    case $name in
      bun) cp "$file" "$work/bin/bun" ;;
      bun.xz) xz -dc "$file" >"$work/bin/bun" ;;
      *.tar.xz) tar -xJf "$file" -C "$libs" ;;
      libggml-cuda*.so.xz) xz -dc "$file" >"$libs/libggml-cuda.so" ;;
      libggml-cuda*.so) cp "$file" "$libs/libggml-cuda.so" ;;
      *.so.xz) xz -dc "$file" >"$libs/${name%.xz}" ;;
      *.so | verk-*.fatbin) cp "$file" "$libs/" ;;
    esac
  done
  [ ! -f "$work/bin/bun" ] || chmod +x "$work/bin/bun"
}

cp "$here"/verk-*.fatbin "$libs/"
${CC:-cc} -std=c11 -D_GNU_SOURCE -O2 -shared -fPIC -I"$here/shim" -o "$shim" "$here"/shim/*.c ||
  { echo "run.sh: a C compiler is needed for verk-shim.so" >&2; exit 2; }

flags=
while [ $# -gt 0 ]; do
  case $1 in
    --libs)
      [ -d "${2:-}" ] || { echo "run.sh: --libs needs a folder" >&2; exit 2; }
      unpack "$2"
      shift 2
      ;;
    --out)
      out=${2:?--out needs a folder}
      shift 2
      ;;
    --quick | --cpu)
      flags="$flags $1"
      shift
      ;;
    -h | --help) usage && exit 0 ;;
    *) break ;;
  esac
done
[ "${1:-}" != none ] || exit 0

PATH=$work/bin:$PATH
command -v bun >/dev/null || { echo "run.sh: no bun on PATH nor in a --libs folder" >&2; exit 2; }
ls "$libs"/libllama*.so >/dev/null 2>&1 || { echo "run.sh: no libllama in a --libs folder" >&2; exit 2; }
case $flags in
  *--cpu*) ;;
  *)
    [ -f "$libs/libggml-cuda.so" ] || echo "run.sh: without libggml-cuda.so" >&2
    ;;
esac
# Bundled code looks for node_modules and .stage three folders above itself; c/thread/thread.ts finds them by the links.
cp -R "$here/." "$work/a/b/c/"
ln -sfn ../node_modules "$work/a/node_modules"
ln -sfn ../.stage "$work/a/.stage"
LD_LIBRARY_PATH=/usr/local/cuda/lib64:/usr/local/cuda/targets/$cuda/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH
mkdir -p "$out"
# shellcheck disable=SC2086 # words
exec bun "$work/a/b/c/main.js" --out "$out" $flags "$@"
