# cmake --toolchain: Debian's compiler for aarch64 (gcc-aarch64-linux-gnu), what it builds run by qemu-user. Libraries of
# that CPU are those that `dpkg --add-architecture arm64` installs, or those in -DTREADLE_SYSROOT=FOLDER, into which their
# packages were unpacked.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TREADLE_SYSROOT)
set(libraries ${TREADLE_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${TREADLE_SYSROOT}/usr/share/pkgconfig)
if(TREADLE_SYSROOT)
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${TREADLE_SYSROOT})
  set(CMAKE_FIND_ROOT_PATH ${TREADLE_SYSROOT} /usr/aarch64-linux-gnu)
  set(CMAKE_C_STANDARD_INCLUDE_DIRECTORIES ${TREADLE_SYSROOT}/usr/include/aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
  set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${libraries})
