"""Builds treadle._core with CMake, in the repository around this folder, into a wheel for every CPython from 3.9 on.

TREADLE_BUILD: a build folder to use, instead of a temporary one; ./dev test gives that of the release."""

import atexit
import os
import pathlib
import shutil
import subprocess
import sysconfig
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HERE = pathlib.Path(__file__).resolve().parent
OUTSIDE = tempfile.mkdtemp(prefix="treadle-wheel-")  # nothing is left in the repository
atexit.register(shutil.rmtree, OUTSIDE, ignore_errors=True)


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        folder = pathlib.Path(os.environ.get("TREADLE_BUILD") or self.build_temp).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        include = sysconfig.get_paths()["include"]
        configure = ["cmake", "-S", str(HERE.parents[1]), "-B", str(folder), "-DTREADLE_PYTHON=ON",
                     f"-DTREADLE_PYTHON_INCLUDE={include}"]
        if not (folder / "CMakeCache.txt").exists():
            configure += ["-DCMAKE_BUILD_TYPE=Release", "-DTREADLE_TESTS=OFF"]
            configure += ["-G", "Ninja"] if shutil.which("ninja") else []
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(folder), "--target", "treadle_python", "treadle", "--parallel"], check=True)
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "python" / "treadle" / "_core.abi3.so", target)
        command = target.parent / "bin" / "treadle"
        command.parent.mkdir(exist_ok=True)
        shutil.copy2(folder / "treadle", command)
        subprocess.run(["strip", str(command)], check=False)


setup(ext_modules=[Extension("treadle._core", sources=[], py_limited_api=True)], cmdclass={"build_ext": CMakeBuild},
      options={"bdist_wheel": {"py_limited_api": "cp39"}, "build": {"build_base": OUTSIDE}})
