#!/bin/sh
# A packager: parts of an installation, builds without what a distribution lacks, one form of the library, another CPU.
. "$TOP/tests/trials/trial.sh"
launcher=
if command -v ccache >/dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
configure() { # FOLDER [OPTION...]
  folder=$1
  shift
  cmake -S "$TOP" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTREADLE_TESTS=OFF $launcher "$@"
}
has() { [ -n "$(find "$1" -name "$2")" ]; } # FOLDER NAME
lacks() { ! has "$@"; }

# Without the picture libraries, one form of the library.
check "configures without pictures, shared" configure plain -DTREADLE_PICTURES=OFF -DBUILD_SHARED_LIBS=ON
check "builds" cmake --build plain
check "installs" cmake --install plain --prefix "$PWD/p"
check "the shared library is there" has p libtreadle.so
check "and the static one is not" lacks p libtreadle.a
check "it needs no picture library" sh -c '! ldd $(find p -name libtreadle.so.0) | grep -qE "spng|jpeg"'
printf 'tdir 1\ninput %%0 "x": f32[1, 3, 4, 4]\n%%1 = aten::neg(%%0)\noutput "y" %%1\n' >net.tdir
check "its command runs" p/bin/treadle run net.tdir
printf '\211PNG\r\n\032\n' >a.png
fails "a picture is refused by name" 4 "reads no PNG files" p/bin/treadle run net.tdir --input a.png
check "CMake finds that package" sh -c 'sed /use_static/d "$TOP/tests/install/CMakeLists.txt" >CMakeLists.txt && cp "$TOP/tests/install/use.c" . &&
  cmake -S . -B use -DCMAKE_PREFIX_PATH="$PWD/p" && cmake --build use && use/use_shared'

check "configures the library alone, static" configure alone -DTREADLE_PICTURES=OFF -DTREADLE_PROGRAMS=OFF -DBUILD_SHARED_LIBS=OFF
check "builds" cmake --build alone
check "installs" cmake --install alone --prefix "$PWD/s"
check "the static library is there" has s libtreadle.a
check "and the shared one is not" lacks s 'libtreadle.so*'
check "nor a command" lacks s treadle.1
check "pkg-config links it as it is" sh -c 'PKG_CONFIG_PATH=$(dirname $(find s -name treadle.pc)) &&
  export PKG_CONFIG_PATH && cc -std=c17 use.c $(pkg-config --cflags --libs treadle) -o one && ./one'

# Parts.
for part in runtime development command; do
  check "component $part" cmake --install "$TOP/build" --prefix "$PWD/$part" --component $part
done
check "runtime is the library" has runtime 'libtreadle.so.*'
check "and no header" lacks runtime '*.h'
check "development has headers" has development treadle.h
check "and no program" lacks development treadle-serve
check "command has the page" has command treadle.1

# The completion knows passes.
completion=$(find command -path '*completions/treadle')
cat >complete.sh <<BASH
source "$completion"
COMP_WORDS=(treadle run --disable-passes prepac) COMP_CWORD=3
_treadle
[ "\${COMPREPLY[0]}" = prepack ]
BASH
check "names of passes are completed" bash complete.sh

# Another CPU, where its compiler is: levels that it has not are left out. Nothing is linked, so a header is enough.
if command -v aarch64-linux-gnu-gcc >/dev/null; then
  mkdir headers && cp "$(find /usr/include -name libdeflate.h | head -n 1)" headers
  check "configures for aarch64" configure arm -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DTREADLE_PICTURES=OFF -DTREADLE_PROGRAMS=OFF -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_C_FLAGS="-isystem $PWD/headers"
  check "builds for aarch64" cmake --build arm
  check "it is of that CPU" sh -c 'aarch64-linux-gnu-readelf -h arm/libtreadle.a | grep -q AArch64'
  check "every kernel that it names is there" sh -c 'aarch64-linux-gnu-nm -A arm/libtreadle.a 2>/dev/null |
    awk "\$2 == \"U\" && \$3 ~ /^kern_/ { want[\$3] = 1 } \$2 ~ /^[TDRB]$/ { have[\$3] = 1 }
      END { for (name in want) if (!(name in have)) { print name; bad = 1 } exit bad }"'
else
  echo "not tried: aarch64 (Debian's gcc-aarch64-linux-gnu)"
fi
finish
