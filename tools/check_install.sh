#!/bin/sh
# check_install.sh -- installs the release build into a folder of its own, looks for every file that should be there, and
# builds tests/install/use.c against it: pkg-config and CMake, shared and static. Ends with a count of checks.
set -u
top=$PWD
work=$top/build-test/install
prefix=$work/prefix
installed=0 wrong=0

check() { # WHAT COMMAND...
  what=$1
  shift
  if "$@"; then
    installed=$((installed + 1))
  else
    wrong=$((wrong + 1))
    echo "FAILED $what"
  fi
}

link_with_pkg_config() { # PROGRAM [--static]
  flags=$(pkg-config --cflags --libs ${2:-} treadle) || return 1
  if [ -n "${2:-}" ]; then # the archive by name: -ltreadle would take the shared library
    flags=$(echo "$flags" | sed "s|-ltreadle|$libraries/libtreadle.a|")
  fi
  cc -std=c17 -Wall -Wextra -Werror -o "$1" "$top/tests/install/use.c" $flags
}

build_with_cmake() { # compiles both programs
  cmake -S "$top/tests/install" -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/cmake"
}

needs_shared() { # PROGRAM
  ldd "$1" | grep -q libtreadle
}
is_alone() { # PROGRAM
  ! needs_shared "$1"
}

installs() { # COMPONENT WANTED UNWANTED: does the component have files of the one name, and none of the other?
  cmake --install build --prefix "$work/$1" --component "$1" >/dev/null || return 1
  [ -n "$(find "$work/$1" -name "$2")" ] && [ -z "$(find "$work/$1" -name "$3")" ]
}

# The shared library asks for nothing: none of what libtreadle.a needs has to be there to link it.
asks_for_nothing() {
  flags=$(PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_PATH= pkg-config --libs treadle) || return 1
  case $flags in *-lspng* | *-lz*) return 1 ;; esac
}

is_small() { # PROGRAM: at most 3 MB without symbols
  strip -o "$work/stripped" "$1" && [ "$(wc -c <"$work/stripped")" -le 3000000 ]
}

rm -rf "$work" && mkdir -p "$work" || exit 1
cmake --install build --prefix "$prefix" || exit 1
libraries=$(dirname "$(find "$prefix" -name libtreadle.a)")
PKG_CONFIG_PATH=$libraries/pkgconfig
export PKG_CONFIG_PATH

for file in include/treadle/treadle.h bin/treadle share/man/man1/treadle.1 share/bash-completion/completions/treadle; do
  check "$file is installed and has content" test -s "$prefix/$file"
done
check "treadle runs" "$prefix/bin/treadle" info
check "treadle has at most 3 MB" is_small "$prefix/bin/treadle"
check "bash reads the completion" bash -n "$prefix/share/bash-completion/completions/treadle"
check "pkg-config, shared: builds" link_with_pkg_config "$work/shared"
check "pkg-config, shared: runs" env LD_LIBRARY_PATH="$libraries" "$work/shared"
check "pkg-config, shared: uses the library" needs_shared "$work/shared"
check "pkg-config, shared: needs no package" asks_for_nothing
check "pkg-config, static: builds" link_with_pkg_config "$work/static" --static
check "pkg-config, static: runs" "$work/static"
check "pkg-config, static: needs no library" is_alone "$work/static"
check "cmake: builds" build_with_cmake
check "cmake, shared: runs" "$work/cmake/use_shared"
check "cmake, shared: uses the library" needs_shared "$work/cmake/use_shared"
check "cmake, static: runs" "$work/cmake/use_static"
check "cmake, static: needs no library" is_alone "$work/cmake/use_static"

check "component runtime: the shared library alone" installs runtime 'libtreadle.so.*' '*.h'
check "component development: headers, no program" installs development treadle.h treadle-serve
check "component development: what links" installs development libtreadle.a 'libtreadle.so.*'
check "component command: programs, no library" installs command treadle.1 'libtreadle*'

echo "$installed passed, $wrong failed"
[ $wrong -eq 0 ]
