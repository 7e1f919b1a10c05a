#!/bin/sh
# card.sh PACKS BEGIN.pt OUT SECONDS [NAME:FACTOR:FILE …]: decodes packs, makes fakes, then trains all parts of the protocol at
# the same time on one card, until SECONDS after the fakes are there. A part takes about 20 GB of the card. Further arguments
# are autoencoders of others (images/fakes.py). OUT/log has what each part prints.
set -eu
packs=$1 begin=$2 out=$3 seconds=$4
shift 4
here=$(dirname "$0")
cache=$out/cache
mkdir -p "$out/log"
python3 "$here/../images/cache.py" --packs "$packs" --cache "$cache"
[ -e "$cache/fakes.json" ] || python3 "$here/../images/fakes.py" --packs "$packs" --cache "$cache" --decoder "$@"
export PYTHONUNBUFFERED=1 TORCHINDUCTOR_COMPILE_THREADS=4 OMP_NUM_THREADS=2 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
minutes=$(python3 -c "print($seconds / 60)")
for part in final 1 2 3 4; do
  python3 "$here/run.py" run --packs "$packs" --cache "$cache" --begin "$begin" --out "$out" --part $part --minutes "$minutes" \
    >"$out/log/$part" 2>&1 &
done
wait
tail -n 1 "$out"/log/*
ls "$out"/fold_*/spread.json "$out/final/spread.json"
