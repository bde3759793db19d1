#!/bin/sh
# deb.sh -- ./dev deb: dist/treadle_VERSION_ARCHITECTURE.deb from the release build: library, headers, programs, manual
# and completion; lintian has nothing to say of it, and what it unpacks runs. The last line counts.
set -u
. tools/common.sh
. tools/package.sh
root=$work/root architecture=$(dpkg --print-architecture) triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
version=$(sed -n 's/^project(treadle VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
maintainer="Treadle maintainers <$(git log -1 --format=%ae)>"
deb=$PWD/dist/treadle_${version}_$architecture.deb
share=$root/usr/share

install_files() {
  configure release -DCMAKE_INSTALL_LIBDIR="lib/$triplet" && cmake --build build &&
    DESTDIR=$root cmake --install build --prefix /usr --strip && configure release -UCMAKE_INSTALL_LIBDIR &&
    strip --strip-debug "$root/usr/lib/$triplet/libtreadle.a" &&
    strip --remove-section=.comment --remove-section=.note "$root"/usr/bin/* "$root/usr/lib/$triplet"/libtreadle.so.*.*
}

write_documents() {
  mkdir -p "$share/doc/treadle" "$share/lintian/overrides"
  gzip -9n "$share/man/man1/treadle.1"
  for program in debug launch sweep serve; do # that page tells of all
    ln -s treadle.1.gz "$share/man/man1/treadle-$program.1.gz"
  done
  cat >"$share/doc/treadle/copyright" <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: treadle

Files: *
Copyright: $(git log -1 --format=%ad --date=format:%Y) Treadle maintainers
License: Apache-2.0
 On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.
TEXT
  gzip -9n >"$share/doc/treadle/changelog.gz" <<TEXT
treadle ($version) unstable; urgency=medium

  * Built from the tree at $(git describe --always).

 -- $maintainer  $(git log -1 --format=%aD)
TEXT
  cat >"$share/lintian/overrides/treadle" <<TEXT
# One package is all of Treadle: programs, the library that they hold already, and what it takes to build with it.
treadle: package-name-doesnt-match-sonames libtreadle0
treadle: non-dev-pkg-with-shlib-symlink *
# What the library exports is td_* of one version.
treadle: no-symbols-control-file *
TEXT
}

# Packages of the libraries that programs and library are linked with.
dependencies() {
  mkdir -p "$work/debian"
  printf 'Source: treadle\n\nPackage: treadle\nArchitecture: any\n' >"$work/debian/control"
  (cd "$work" && dpkg-shlibdeps -O "$root"/usr/bin/* "$root/usr/lib/$triplet"/libtreadle.so.*.* 2>/dev/null) |
    sed -n 's/^shlibs:Depends=//p'
}

write_control() {
  mkdir -p "$root/DEBIAN"
  depends=$(dependencies)
  [ -n "$depends" ] || return 1
  cat >"$root/DEBIAN/control" <<TEXT
Package: treadle
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f 1)
Depends: $depends
Recommends: gcc, libjpeg62-turbo-dev, libspng-dev, libdeflate-dev
Section: science
Priority: optional
Description: runs trained models on CPUs
 Treadle takes trained models (ONNX, TorchScript, torch.export), compiles them
 for the CPU at hand, and runs, profiles, debugs, launches and serves them
 without Python. This package has its programs, the library and its headers.
TEXT
  echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
  echo "libtreadle 0 treadle (>= $version)" >"$root/DEBIAN/shlibs"
  (cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
}

pack() {
  mkdir -p dist && rm -f dist/treadle_*.deb
  find "$root" -type d -exec chmod 755 {} +
  find "$root" -type f ! -perm -100 -exec chmod 644 {} +
  chmod 644 "$root/usr/lib/$triplet"/libtreadle.so.*.*
  dpkg-deb --root-owner-group --build "$root" "$deb"
}

unpack() { dpkg-deb --extract "$deb" "$work/unpacked"; }

has() { # FILE
  test -s "$work/unpacked/usr/$1"
}

builds_a_program() {
  export PKG_CONFIG_PATH="$work/unpacked/usr/lib/$triplet/pkgconfig"
  cc -std=c17 -Wall -Wextra -Werror -o "$work/use" tests/install/use.c $(pkg-config --cflags --libs treadle) &&
    LD_LIBRARY_PATH="$work/unpacked/usr/lib/$triplet" "$work/use"
}

check "files are installed" install_files
check "documents are written" write_documents
check "its control file is written" write_control
check "the package is made" pack
check "lintian has nothing to say" lintian --allow-root --fail-on error,warning,info "$deb"
check "it unpacks" unpack
for file in bin/treadle bin/treadle-debug bin/treadle-launch bin/treadle-sweep bin/treadle-quantize bin/treadle-serve include/treadle/treadle.h \
  "lib/$triplet/libtreadle.so" "lib/$triplet/libtreadle.a" share/man/man1/treadle.1.gz \
  share/man/man1/treadle-serve.1.gz share/bash-completion/completions/treadle; do
  check "it has $file" has "$file"
done
for program in "treadle info" "treadle launch --help" "treadle bench --help" "treadle-launch --help" \
  "treadle-serve --help"; do
  check "$program runs" sh -c "'$work/unpacked/usr/bin/'$program"
done
check "a program builds with it" builds_a_program
ls -s --block-size=1 "$deb"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
