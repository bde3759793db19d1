/* image_product_priv.h -- a product by tiles of AMX, or of dot instructions on bytes: a convolution, or rows of a
 * matrix, which are windows of one pixel.
 *
 * The lines that a block of output lines sees are made into an image of their own, with what lies beside x around, from
 * which tiles of A are read as they lie. A run of a tile is a tap, or a row of taps. As taps, each phase of the strides
 * is an image by itself, so that those of output pixels side by side stand one pixel apart, whatever the stride. As
 * rows of taps, output pixels stand a stride of pixels apart in the one image of a phase of lines; or, `gathered`, each
 * has pixels of its own. Tiles run on from line to line, over what the windows have more than a line of output, whose
 * sums nobody reads.
 *
 *     image[plane of the window][phase][phase][line][pixel of a phase][channel]
 *
 * A window of one pixel sees no line: then each output pixel is a line of one. */
#ifndef KERNELS_IMAGE_PRODUCT_PRIV_H
#define KERNELS_IMAGE_PRODUCT_PRIV_H
#include "kernels/products/conv.h"
#include "kernels/simd/product_tile_priv.h"
#include "kernels/simd/simd_priv.h"

typedef struct image_product image_product;
struct image_product {
  kern_conv c;
  /* ---- what a kernel says ---- */
  int64_t size;          /* bytes of an element of the image */
  bool rows, gathered;   /* runs are rows of taps */
  bool zeros;            /* what lies beside x adds nothing to a sum */
  int64_t blocks, words; /* of a run; words of 32 bits of a block */
  int64_t channels;      /* elements of a pixel of the image */
  const char *x;
  int64_t x_pixel, x_line, x_plane, x_sample, x_group; /* bytes from one to the next */
  int64_t a_group, a_panel; /* the image is that of all groups: bytes to the next one's channels, or panel's; or 0 */
  bool lies;                /* x is the image: lines are merged, and runs fill whole blocks */
  const char *w;            /* [group][panel][run][block]... */
  /* Makes some panels of a group of these, which w has in another form, for all their tiles, and up to four lines of
   * the cache more; NULL: they lie. */
  void (*unpack)(const image_product *p, int64_t group, int64_t panel, int64_t panels, char *to);
  int64_t weights;      /* bytes of a column of these that meet a word */
  const int32_t *start; /* what sums begin with, V_LANES of each panel; NULL: zeros */
  /* Lines [first, last) of a plane of a sample, a group's channels, one behind the other, where they are not those of
   * x; else NULL. */
  const char *(*make_lines)(const image_product *p, int64_t plane, int64_t first, int64_t last, int64_t group);
  /* Writes a line of the image, of one phase, from a line of x; NULL: it lies beside x. */
  void (*take)(const image_product *p, const char *from, int64_t phase, void *to);
  /* The same of `count` lines of one pixel each, none of which lies beside x; NULL: one after the other. */
  void (*take_pixels)(const image_product *p, const char *from, int64_t count, void *to);
  void (*multiply)(const product_tile *t, int64_t rows, int64_t panels);
  const float *scales; /* product_tile's, of the first panel; NULL: there are none */
  int64_t scale_panel, scale_blocks, a_low;
  /* Adds to the sums of a tile what follows from its rows of A alone; NULL: nothing. */
  void (*add)(const image_product *p, const product_tile *t, int64_t rows, int64_t panels);
  /* Sums, rows of whole panels, of output pixels from `pixel` on, columns of a group from `column` on. */
  void (*finish)(const image_product *p, float *sums, int64_t pixel, int64_t rows, int64_t group, int64_t column,
                 int64_t columns);
  /* What is left to do of `lines` lines of output, the first of all that there are is `line`, once their sums are;
   * NULL: nothing. The columns are of one task then. */
  void (*finish_lines)(const image_product *p, int64_t line, int64_t lines);
  /* ---- what follows ---- */
  int64_t panels, panel; /* of a group; bytes of one */
  int64_t phase[2];      /* of lines, of pixels of a line */
  int64_t pixel;         /* elements from what an output pixel sees to what the next one does */
  int64_t runs;
  int64_t together;    /* runs that all tiles of a block are multiplied by before the next ones are */
  float *partial;      /* the sums of the tiles of a block meanwhile; NULL: all runs are together */
  int64_t lines, line; /* of a phase; output pixels of one */
  int64_t block_lines; /* of output */
  int64_t seen;        /* lines of x that those see at most */
  int64_t *run;        /* product_tile.run: of each */
  const char *image;   /* of a block */
  char *room;          /* for it; NULL: it lies */
  char *unpacked;      /* weights of a tile's panels; NULL: they lie */
};

/* True: each output pixel sees one pixel of its own, and is now a line of one. */
bool KERN_PART_NAME(image_merge_lines)(kern_conv *c);
/* Elements of a pixel that has `stored`, in which rows of a tile do not share few sets of L1. */
int64_t KERN_PART_NAME(image_spread)(int64_t stored, int64_t size);
/* What follows from what the kernel says; for so many workers. */
void KERN_PART_NAME(image_cut)(image_product *p, uint32_t workers);
/* The tasks that are this worker's, of a product that is cut. */
td_status KERN_PART_NAME(image_run)(const base_call *call, image_product *p);
#endif
