/* fuzz_pt2.c -- any bytes as a program of torch.export, archive or document: imported, folded, planned, not run. Memory
 * is limited as an administrator would limit it. */
#include "fuzz/change_numbers.h"
#include "fuzz/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return load_within_memory(data, size, "pt2"); }
