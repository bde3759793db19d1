"""Builds treadle._core with CMake, in the repository around this folder, into a wheel for every CPython from 3.9 on.

TREADLE_BUILD: a build folder to use, instead of a temporary one; ./dev test gives that of the release.
TREADLE_BUNDLE: not empty: the wheel carries the libraries that a plain system lacks, and its tag says which C library
it asks for (./dev wheel)."""

import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import tempfile

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
OUTSIDE = tempfile.mkdtemp(prefix="treadle-wheel-")  # nothing is left in the repository
atexit.register(shutil.rmtree, OUTSIDE, ignore_errors=True)
PROGRAMS = ("treadle", "treadle-debug", "treadle-launch", "treadle-sweep", "treadle-quantize", "treadle-serve")
SYSTEM_LIBRARIES = re.compile(r"ld-linux|lib(c|m|dl|pthread|rt|z|gcc_s)\.so")  # of every Linux, by PEP 600


def compile_all(command):
    """Runs a build. pip keeps what it prints to itself, so the terminal hears how far it is."""
    try:
        terminal = open("/dev/tty", "w")
    except OSError:
        terminal = None  # nobody watches
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as build:
        for line in build.stdout:
            print(line, end="", flush=True)
            step = re.match(r"\[ *(\d+)(?:/(\d+)|%)\]", line)
            if terminal and step:
                done = f"{step[1]} of {step[2]} files" if step[2] else f"{step[1]} %"
                print(f"\rtreadle: compiled {done} ", end="", file=terminal, flush=True)
    if terminal:
        print(file=terminal)
        terminal.close()
    if build.returncode:
        raise subprocess.CalledProcessError(build.returncode, command)


def bundle(package):
    """The libraries that the programs of the package need beside them, and what their packages say of their rights."""
    libraries = package / "libraries"
    libraries.mkdir()
    files = [package / "_core.abi3.so", *(package / "bin" / name for name in PROGRAMS)]
    for file in files:
        listed = subprocess.run(["ldd", str(file)], check=True, stdout=subprocess.PIPE, text=True).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE):
            if SYSTEM_LIBRARIES.match(name) or (libraries / name).exists():
                continue
            shutil.copy2(os.path.realpath(path), libraries / name)
            subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", str(libraries / name)], check=True)
            search = ["dpkg-query", "-S", os.path.realpath(path)]
            owner = subprocess.run(search, stdout=subprocess.PIPE, text=True).stdout
            rights = pathlib.Path("/usr/share/doc", owner.split(":")[0], "copyright")
            if owner and rights.exists():
                shutil.copy2(rights, libraries / f"{name}.copyright")
        place = "$ORIGIN/libraries" if file.parent == package else "$ORIGIN/../libraries"
        subprocess.run(["patchelf", "--set-rpath", place, str(file)], check=True)


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
            configure += ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(configure, check=True)
        compile_all(["cmake", "--build", str(folder), "--parallel", "--target", "treadle_python", *PROGRAMS])
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        programs = target.parent / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        shutil.copy2(folder / "python" / "treadle" / "_core.abi3.so", target)
        for name in PROGRAMS:
            shutil.copy2(folder / name, programs / name)
        if os.environ.get("TREADLE_BUNDLE"):
            bundle(target.parent)
        for file in (target, *(programs / name for name in PROGRAMS)):
            subprocess.run(["strip", "--strip-unneeded", str(file)], check=False)


class TaggedWheel(bdist_wheel):
    def get_tag(self):
        """The oldest C library whose symbols are asked for, as PEP 600 writes it: manylinux_2_36_x86_64."""
        python, abi, platform = super().get_tag()
        if os.environ.get("TREADLE_BUNDLE"):
            files = [str(f) for f in pathlib.Path(self.bdist_dir).rglob("*") if f.is_file() and is_elf(f)]
            listed = subprocess.run(["objdump", "-T", *files], check=True, stdout=subprocess.PIPE, text=True).stdout
            newest = max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", listed))
            platform = platform.replace("linux_", f"manylinux_2_{newest}_", 1)
        return python, abi, platform


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


setup(ext_modules=[Extension("treadle._core", sources=[], py_limited_api=True)],
      cmdclass={"build_ext": CMakeBuild, "bdist_wheel": TaggedWheel},
      options={"bdist_wheel": {"py_limited_api": "cp39"}, "build": {"build_base": OUTSIDE},
               "egg_info": {"egg_base": OUTSIDE}})
