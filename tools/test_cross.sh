#!/bin/sh
# test_cross.sh -- ./dev test-cross: a build for aarch64 by Debian's compiler, with all libraries and programs, and its
# recorded models under qemu-user; then one for x86-64 by a compiler that knows no AVX-512. Takes some minutes. The last line
# counts.
#
# Libraries for aarch64 are unpacked into build-cross/sysroot from Debian's packages; nothing of the system changes but for
# the packages of the cross compiler and of qemu-user.
set -u
. tools/common.sh
. tools/package.sh
folder=$PWD/build-cross sysroot=$PWD/build-cross/sysroot
libraries="libdeflate0 libdeflate-dev zlib1g zlib1g-dev libspng0 libspng-dev libjpeg62-turbo libjpeg62-turbo-dev libjansson4 libjansson-dev
  libnghttp2-14 libnghttp2-dev libssl3 libssl-dev libyaml-0-2 libyaml-dev"

unpack_libraries() { # with lists of apt's own, in which there is no CPU but this
  [ ! -e "$sysroot/done" ] || return 0
  lists=$work/apt
  mkdir -p "$lists/state/lists/partial" "$lists/cache/archives/partial" "$lists/packages" "$sysroot"
  touch "$lists/state/status"
  options="-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Dir::State=$lists/state
    -o Dir::State::status=$lists/state/status -o Dir::Cache=$lists/cache"
  apt-get $options update && (cd "$lists/packages" && apt-get $options download $libraries) || return 1
  mkdir -p "$sysroot/usr/lib" && ln -sfn usr/lib "$sysroot/lib" || return 1
  for package in "$lists"/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$sysroot" || return 1
  done
  for link in "$sysroot"/usr/lib/*/*.so; do # to /lib of the machine that it is for
    case $(readlink "$link") in /*) ln -sf "$(basename "$(readlink "$link")")" "$link" ;; esac
  done
  touch "$sysroot/done"
}

launcher=
if command -v ccache >/dev/null; then launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache; fi
configure_in() { # FOLDER [OPTION...]
  to=$folder/$1
  shift
  cmake -S . -B "$to" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTREADLE_TESTS=OFF $launcher "$@"
}
emulated() { # PROGRAM [ARGUMENT...], from build-cross/aarch64
  program=$1
  shift
  qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$sysroot/usr/lib/aarch64-linux-gnu" "$folder/aarch64/$program" "$@"
}
says() { # TEXT COMMAND...
  text=$1
  shift
  "$@" 2>&1 | tee "$work/said" | grep -q -e "$text" || { cat "$work/said"; return 1; }
}
lacks() { # TEXT COMMAND...
  ! says "$@"
}

install_packages $build_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user || exit 1
check "libraries for aarch64" unpack_libraries
check "configures for aarch64" configure_in aarch64 --toolchain cmake/aarch64-linux-gnu.cmake -DTREADLE_SYSROOT="$sysroot"
check "builds" cmake --build "$folder/aarch64"
check "installs" cmake --install "$folder/aarch64" --prefix "$work/prefix"
for file in treadle libtreadle.so.0 treadle-serve; do
  check "$file is of that CPU" sh -c "aarch64-linux-gnu-readelf -h '$folder/aarch64/$file' | grep -q AArch64"
done
check "the page comes of the command itself" test -s "$folder/aarch64/treadle.1"
check "it has the portable level" says kern_copy_vector emulated treadle info --json
check "and none of another CPU" lacks _avx emulated treadle info --json
check "recorded models: branches and loops" emulated treadle check --backend interp tests/models/control
check "machine code, by the cross compiler" emulated treadle check --cc aarch64-linux-gnu-gcc tests/models/control --only '*loop*'
check "a model that is built in" emulated treadle run "builtin:layer:linear 8x64 out=32" --isa vector
for model in elman-onnx-loop-ts13 bigru-pt-scripted condition-pt2; do
  [ ! -d "$corpus/$model" ] || check "corpus: $model" emulated treadle check --backend interp "$corpus/$model"
done

check "configures without AVX-512" configure_in plain -DTREADLE_HAS_avx512=OFF
check "builds" cmake --build "$folder/plain"
check "that level is not there" lacks _avx512 "$folder/plain/treadle" info --json
check "avx2 is" says kern_copy_avx2 "$folder/plain/treadle" info --json
check "recorded models" "$folder/plain/treadle" check tests/models/control tests/models/operators
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
