/* wav.h -- sound: RIFF WAVE files, read. Memory: 4 bytes per sample in the arena. */
#ifndef FMT_WAV_H
#define FMT_WAV_H
#include "base/base.h"

/* Samples of a file as f32[channels,samples] in `arena` and samples per second. Integers of 8 (unsigned), 16, 24 and 32
 * bits are scaled to [-1, 1) by a power of two; floats of 32 and 64 bits stay as they are. A data chunk longer than the
 * file (as streaming writers leave it) ends with the file. TD_BAD_FILE: damaged, with the byte offset. TD_UNSUPPORTED:
 * a compressed form. */
td_status fmt_wav_read(base_arena *arena, const void *bytes, size_t size, base_tensor *samples, int64_t *rate,
                       td_error *err);
#endif
