/* fuzz_tdir.c -- any bytes as a graph in its text form: read, folded, planned, not run. Files beside it are refused. */
#include "fuzz/change_numbers.h"
#include "fuzz/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return load_within_memory(data, size, "tdir"); }
