#!/bin/sh
# test_zoo.sh FOLDER... [OPTION...] -- the long suite: models that other engines run too, agreement on every level of kernels
# and a table of speed (tools/zoo.py). ZOO_PYTHON: a Python that has numpy, onnxruntime and openvino; python3 by default.
set -eu
python=${ZOO_PYTHON:-python3}
if [ $# -eq 0 ] || [ ! -d "$1" ]; then
  echo "test_zoo.sh: which models? give a folder of *.onnx files (and NAME.input_0.npy ... beside them)" >&2
  exit 2
fi
if ! missing=$("$python" -c 'import importlib.util as u
print(*[m for m in ("numpy", "onnxruntime", "openvino") if not u.find_spec(m)])' 2>&1) || [ -n "$missing" ]; then
  echo "test_zoo.sh: $python lacks: $missing" >&2
  echo "  python3 -m venv peers && peers/bin/pip install numpy onnxruntime openvino" >&2
  echo "  ZOO_PYTHON=peers/bin/python ./dev test-zoo $*" >&2
  exit 2
fi
exec "$python" tools/zoo.py "$@"
