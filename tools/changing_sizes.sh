#!/bin/sh
# changing_sizes.sh -- ten changing sizes in a row through whole models: no compilation, and memory that stays once all of
# them were seen. Needs ./dev build. The models are ONNX files with an open length or size:
#
#   tools/changing_sizes.sh bert_base_open.onnx 128,17,1,64,3,100,31,96,127,2 input_0=1xN input_1=1xN
#   tools/changing_sizes.sh resnet18_hw.onnx 224,64,65,96,97,128,160,192,193,33 input_0=1x3xNxN
set -eu
[ $# -ge 3 ] || { sed -n 2,7p "$0"; exit 2; }
model=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cc -O2 -std=gnu17 -Iinclude tools/changing_sizes.c -Lbuild -ltreadle -Wl,-rpath,"$PWD/build" -o "$folder/changing_sizes"
mkdir -m 700 "$folder/cache"
"$folder/changing_sizes" "$model" "$folder/cache" "$@"
