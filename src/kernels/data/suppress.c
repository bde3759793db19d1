/* suppress.c -- KERN_SUPPRESS: td::non_max_suppression of f32. Candidates go through a radix sort by score; corners and
 * areas are computed once per box, and those of the selected stand side by side. */
#include "base/size.h"
#include "kernels/kernels_priv.h"
#include "kernels/data/data.h"

enum { BOXES, SCORES, MOST, OVERLAP, LEAST_SCORE }; /* operands */
enum { BLOCK = 16 };                                /* selected boxes that are passed by at once */

typedef struct job {
  const float *boxes, *scores;
  int64_t batches, classes, count, most; /* boxes of a sample; most to select per class */
  float overlap, least_score;
  bool has_least, center;
  uint64_t *keys, *spare;
  float *side[4], *area; /* of the selected of one class: low and high ends of both axes */
  base_i64 *found;
  int64_t total;
} job;

typedef struct box {
  float end[4], area;
} box;

static box read_box(const job *j, const float *at) {
  box b;
  for (int i = 0; i < 2; i++) {
    const float x = j->center ? at[i] - at[i + 2] / 2 : at[i], y = j->center ? at[i] + at[i + 2] / 2 : at[i + 2];
    b.end[i] = x < y ? x : y;
    b.end[i + 2] = x < y ? y : x;
  }
  b.area = (b.end[2] - b.end[0]) * (b.end[3] - b.end[1]);
  return b;
}

static bool covers(const job *j, int64_t i, const box *b) {
  const float low0 = j->side[0][i] > b->end[0] ? j->side[0][i] : b->end[0],
              low1 = j->side[1][i] > b->end[1] ? j->side[1][i] : b->end[1],
              high0 = j->side[2][i] < b->end[2] ? j->side[2][i] : b->end[2],
              high1 = j->side[3][i] < b->end[3] ? j->side[3][i] : b->end[3];
  const float height = high0 - low0, width = high1 - low1, shared = height * width;
  return height > 0 && width > 0 && j->area[i] > 0 && shared / (b->area + j->area[i] - shared) > j->overlap;
}

/* Are all of a block disjoint from the box? No comparison is true of what is no number, nor is any box its neighbour.
 */
static bool is_disjoint(const float *low0, const float *low1, const float *high0, const float *high1, const box *b) {
  const float top = b->end[0], left = b->end[1], bottom = b->end[2], right = b->end[3];
  int32_t near = 0;
  for (int i = 0; i < BLOCK; i++) near |= (low0[i] < bottom) & (high0[i] > top) & (low1[i] < right) & (high1[i] > left);
  return !near;
}

/* Few boxes lie near each other: most blocks are passed by. */
static bool is_covered(const job *j, const box *b, int64_t selected) {
  for (int64_t first = 0; first < selected; first += BLOCK) {
    if (is_disjoint(j->side[0] + first, j->side[1] + first, j->side[2] + first, j->side[3] + first, b)) continue;
    for (int64_t i = first; i < base_min_i64(selected, first + BLOCK); i++)
      if (covers(j, i, b)) return true;
  }
  return false;
}

/* Keys of the candidates of one class, best first; of equal scores the first. NaN is worse than any number. */
static int64_t rank_candidates(const job *j, const float *scores) {
  int64_t count = 0;
  for (int64_t i = 0; i < j->count; i++)
    if (!j->has_least || scores[i] > j->least_score) j->keys[count++] = kern_order_key(-scores[i], (uint32_t)i, false);
  kern_order_sort(j->keys, j->spare, count);
  return count;
}

static void select_boxes(job *j, int64_t batch, int64_t class) {
  const int64_t candidates = rank_candidates(j, j->scores + (batch * j->classes + class) * j->count);
  int64_t selected = 0;
  for (int64_t i = 0; i < candidates && selected < j->most; i++) {
    const int64_t place = kern_order_place(j->keys[i]);
    const box b = read_box(j, j->boxes + (batch * j->count + place) * 4);
    if (b.area > 0 && is_covered(j, &b, selected)) continue;
    for (int k = 0; k < 4; k++) j->side[k][selected] = b.end[k];
    j->area[selected++] = b.area;
    j->found[j->total * 3] = batch;
    j->found[j->total * 3 + 1] = class;
    j->found[j->total++ * 3 + 2] = place;
  }
}

static td_status describe(const base_call *call, job *j) {
  const base_tensor *boxes = base_in(call, BOXES), *scores = base_in(call, SCORES), *most = base_in(call, MOST),
                    *overlap = base_in(call, OVERLAP), *least = base_in(call, LEAST_SCORE);
  size_t room;
  if (boxes->rank != 3 || scores->rank != 3 || boxes->dims[2] != 4 || scores->dims[0] != boxes->dims[0] ||
      scores->dims[2] != boxes->dims[1] || boxes->dims[1] > UINT32_MAX)
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                     "boxes must be [batches, n, 4] and scores [batches, classes, n]");
  *j = (job){.boxes = boxes->data,
             .scores = scores->data,
             .batches = boxes->dims[0],
             .classes = scores->dims[1],
             .count = boxes->dims[1],
             .center = base_attr_int(call->attrs, KERN_SUPPRESS_CENTER) != 0};
  if (most && base_tensor_numel(most)) j->most = base_load_i64(most->dtype, most->data, 0);
  j->most = base_min_i64(base_max_i64(j->most, 0), j->count);
  if (overlap && base_tensor_numel(overlap)) j->overlap = (float)base_load_f64(overlap->dtype, overlap->data, 0);
  j->has_least = least && base_tensor_numel(least);
  if (j->has_least) j->least_score = (float)base_load_f64(least->dtype, least->data, 0);
  if (!base_mul((size_t)(j->batches * j->classes), (size_t)j->most, &room))
    return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "too many boxes");
  j->keys = base_call_scratch(call, (size_t)j->count, 2 * sizeof *j->keys);
  const int64_t places = j->most + BLOCK; /* blocks are whole; what is behind the last box is never asked */
  j->area = base_call_scratch(call, (size_t)places, 5 * sizeof *j->area);
  j->found = base_call_scratch(call, room, 3 * sizeof *j->found);
  if (!j->keys || !j->area || !j->found) return base_no_memory(call->err, "scratch");
  j->spare = j->keys + j->count;
  memset(j->area, 0, (size_t)places * 5 * sizeof *j->area);
  for (int k = 0; k < 4; k++) j->side[k] = j->area + (k + 1) * places;
  return TD_OK;
}

td_status kern_suppress(const base_call *call) {
  job j = {0};
  td_status status = describe(call, &j);
  if (status != TD_OK) return status;
  for (int64_t b = 0; b < j.batches; b++)
    for (int64_t c = 0; c < j.classes; c++) select_boxes(&j, b, c);
  status = base_call_define(call, 0, TD_I64, 2, (int64_t[]){j.total, 3});
  if (status == TD_OK && base_out(call, 0) && j.total)
    memcpy(base_out(call, 0)->data, j.found, (size_t)j.total * 3 * sizeof *j.found);
  return status;
}
