#!/bin/sh
# test_python_long.sh -- ./dev test-python [PART...]: PyTorch models and operators on Treadle, against PyTorch. Long.
#
# Parts: unit (torch.compile, exported programs, modules, a session), language (decoding, state, forks, a detector),
# models (torchvision and the zoo of other families), families (one tiny model of each family that libraries build,
# from files: traced, exported, and of ONNX with open sizes), ops (op_db), files (op_db from .pt and .pt2, forms that
# write, mixed types), types (every pair of types that an operator takes), empty (operands without elements), profiles
# (of the built-in models, whose figures must fit), tutorials (a profile, a fault, annotations, threads and forks, as
# readers of tutorials write them), inductor (PyTorch's own test_torchinductor.py, which --file names; left out
# without it), handlers (Python handlers of archives in the server), examples (the requests of TorchServe's own
# regression tests, and its own examples, their code unchanged, from its public repository, or from the folder or
# repository that TREADLE_TORCHSERVE names; `./dev test-python examples Workflows` runs some); options after a part go
# to it, e.g. `./dev test-python ops --write docs/operators.md`, or `./dev test-python models --help`.
# TREADLE_PYTHON: a Python that has what `libraries` names; without it a virtual environment is made in build/python/env,
# and today's are fetched into it.
set -u
. tools/common.sh

libraries="onnx onnxruntime onnxscript torch torchvision timm transformers diffusers torch_geometric monai einops expecttest setuptools matplotlib psutil pyyaml"
python=${TREADLE_PYTHON:-}
if [ -z "$python" ]; then
  install_packages $build_packages $python_packages python3-venv || exit 1
  python=build/python/env/bin/python
  if [ ! -x $python ]; then
    mkdir -p build/python && /usr/bin/python3 -m venv build/python/env || exit 1
    $python -m pip --quiet --disable-pip-version-check install $libraries || exit 1
  fi
fi

configure release -DTREADLE_PYTHON=ON >/dev/null && cmake --build build --target treadle_python itt_collector || exit 1
# torch finds the backend by the entry points of an installed package: that of the wheel
rm -rf build/python/wheel build/python/installed
TREADLE_BUILD=$PWD/build /usr/bin/python3 -m pip --disable-pip-version-check wheel --quiet --no-index --no-build-isolation \
  --no-deps --wheel-dir build/python/wheel bindings/python || exit 1
$python -m pip --disable-pip-version-check install --quiet --no-index --no-deps --target build/python/installed \
  build/python/wheel/*.whl || exit 1
export PYTHONPATH=$PWD/build/python/installed${PYTHONPATH:+:$PYTHONPATH}

# What TorchServe's examples import beside torch, of their time: without what these want, which is there.
fetch_old() {
  [ -d build/python/examples/transformers ] ||
    $python -m pip --disable-pip-version-check install --quiet --no-deps --target build/python/examples \
      "transformers==4.51.3" "tokenizers==0.21.*" "huggingface-hub==0.36.*" captum accelerate lru-dict xgboost-cpu scikit-learn \
      joblib threadpoolctl scipy
}

run_part() {
  part=$1
  shift
  echo "---- $part"
  if [ "$part" = handlers ]; then
    cmake --build build --target treadle-serve && $python tools/check_torch_handlers.py build
    return
  fi
  if [ "$part" = examples ]; then
    cmake --build build --target treadle-serve && /usr/bin/python3 tools/check_torchserve_requests.py build && fetch_old &&
      PYTHONPATH=$PWD/build/python/examples:$PYTHONPATH $python tools/check_torchserve_examples.py build "$@"
    return
  fi
  if [ "$part" != unit ]; then
    $python bindings/python/tests/suite.py "$part" "$@"
    return
  fi
  wrong=0
  for tests in bindings/python/tests/test_torch*.py; do $python "$tests" "$@" || wrong=1; done
  return $wrong
}

if [ $# -gt 0 ]; then
  run_part "$@"
  exit
fi
bad=0
for part in unit language models families ops files types empty profiles tutorials inductor handlers examples; do run_part $part || bad=$((bad + 1)); done
echo "$((13 - bad)) passed, $bad failed"
[ $bad -eq 0 ]
