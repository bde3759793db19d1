/* fmt.h -- the one header of this room: readers of untrusted bytes. */
#ifndef FMT_FMT_H
#define FMT_FMT_H
#include "fmt/wire.h"
#include "fmt/tensor_proto.h"
#include "fmt/npy.h"
#include "fmt/zip.h"
#include "fmt/pickle.h"
#include "fmt/torch_storage.h"
#include "fmt/state_dict.h"
#include "fmt/image.h"
#include "fmt/wav.h"
#include "fmt/json.h"
#endif
