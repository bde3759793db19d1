/* speed.h -- how fast a machine computes, moves data and hands work over: one model by which rooms compare two ways to
 * do a thing. A decision made by it never changes a result. */
#ifndef BASE_SPEED_H
#define BASE_SPEED_H

/* Rates are those of one core, as kernels and loops reach them: they are below its peaks. */
typedef struct base_speed {
  double flops_per_ns;   /* of f32: of products, and operations of fused loops on elements */
  double near_per_ns;    /* bytes from the core's own caches */
  double far_per_ns;     /* bytes that another core has just written */
  double memory_per_ns;  /* bytes that have left the caches */
  double weights_per_ns; /* bytes of weights, which arrive while those before them are computed with */
  double step_ns;        /* of a step, and of a part of one, without its work */
  double loop_ns;        /* of a fused loop between others, without its work: it starts on cold code and rows */
  double hand_over_ns;   /* until a second thread has begun on a step */
  double thread_ns;      /* of work for which a step takes one more thread */
  double task_ns;        /* of work from which on waking a thread for it, and a copy of its result, pay */
  double own_bytes;      /* of a value that may lie in one core's caches */
  double shared_bytes;   /* of a result that the caches of all cores keep until the next step reads it */
} base_speed;

/* Three of them are rows of kernels/tuning.def, which begin with these. */
enum { BASE_FAR_PER_NS = 12, BASE_HAND_OVER_NS = 500, BASE_THREAD_NS = 4000 };
/* Where nothing is known of the machine. */
extern const base_speed base_speed_default;
static inline const base_speed *base_speed_or_default(const base_speed *speed) {
  return speed ? speed : &base_speed_default;
}

/* How often a loop is taken to run whose number of iterations is not known. */
enum { BASE_ITERATIONS = 8 };

/* About how long one thread takes for work whose operands have left its caches, in ns. */
double base_work_ns(const base_speed *speed, double flops, double bytes);
#endif
