/* speed.h -- the model of speed of a CPU whose tuning is known. */
#ifndef KERNELS_SPEED_H
#define KERNELS_SPEED_H
#include "base/speed.h"
#include "kernels/tuning.h"

/* base_speed_default with the numbers that the tuning has. NULL: the default. */
base_speed kern_speed(const kern_tuning *t);
#endif
