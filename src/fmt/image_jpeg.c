/* image_jpeg.c -- JPEG through libjpeg-turbo. libjpeg reports errors by a callback that may not return: it leaves
 * through longjmp to the one setjmp below, whose function keeps no locals, so none can be stale. */
#include "fmt/image_priv.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>
#include <jerror.h>

/* A progressive file may hold any number of passes over the whole picture; real ones have about ten. */
enum { MOST_SCANS = 100 };

typedef struct reader {
  struct jpeg_decompress_struct jpeg; /* first: callbacks get its address */
  struct jpeg_error_mgr manager;
  struct jpeg_progress_mgr progress;
  jmp_buf leave;
  td_status status;
  base_arena *arena;
  const void *bytes;
  size_t size;
  int64_t most_pixels;
  fmt_image *image;
  td_error *err;
} reader;

static _Noreturn void give_up(reader *r, td_status status) {
  r->status = status;
  longjmp(r->leave, 1);
}

static _Noreturn void on_error(j_common_ptr info) {
  reader *r = (reader *)info;
  char text[JMSG_LENGTH_MAX];
  bool memory = r->manager.msg_code == JERR_OUT_OF_MEMORY;
  r->manager.format_message(info, text);
  base_fail(r->err, memory ? TD_NO_RESOURCE : TD_BAD_FILE, NULL, -1, "the JPEG file is damaged: %s", text);
  give_up(r, memory ? TD_NO_RESOURCE : TD_BAD_FILE);
}

/* libjpeg would fill what is missing with gray; level -1 is a warning, the others are traces. */
static void on_message(j_common_ptr info, int level) {
  reader *r = (reader *)info;
  if (level >= 0 || r->manager.msg_code != JWRN_JPEG_EOF) return;
  base_fail(r->err, TD_BAD_FILE, NULL, (int64_t)r->size, "the JPEG file is cut short");
  give_up(r, TD_BAD_FILE);
}

static void no_output(j_common_ptr info) { (void)info; }

static void on_progress(j_common_ptr info) {
  reader *r = (reader *)info;
  if (r->jpeg.input_scan_number <= MOST_SCANS) return;
  base_fail(r->err, TD_BAD_FILE, NULL, -1, "the JPEG file has more than %d scans", MOST_SCANS);
  give_up(r, TD_BAD_FILE);
}

static void read_picture(reader *r) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  jpeg_mem_src(jpeg, r->bytes, r->size);
  jpeg_read_header(jpeg, TRUE);
  if (jpeg->num_components == 4) {
    base_fail(r->err, TD_UNSUPPORTED, NULL, -1, "the JPEG file holds CMYK colours; convert it to RGB");
    give_up(r, TD_UNSUPPORTED);
  }
  td_status status = fmt_image_make(r->arena, jpeg->image_width, jpeg->image_height, r->most_pixels, r->image, r->err);
  if (status != TD_OK) give_up(r, status);
  jpeg->out_color_space = JCS_RGB;
  jpeg_start_decompress(jpeg);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW row = r->image->rgb + r->image->stride * jpeg->output_scanline;
    jpeg_read_scanlines(jpeg, &row, 1);
  }
  jpeg_finish_decompress(jpeg);
}

static void read_or_leave(reader *r) {
  if (setjmp(r->leave)) return;
  jpeg_create_decompress(&r->jpeg);
  r->jpeg.progress = &r->progress;
  read_picture(r);
}

td_status fmt_jpeg_decode(base_arena *arena, const void *bytes, size_t size, int64_t most_pixels, fmt_image *image,
                          td_error *err) {
  reader r = {.arena = arena, .bytes = bytes, .size = size, .most_pixels = most_pixels, .image = image, .err = err};
  r.jpeg.err = jpeg_std_error(&r.manager);
  r.manager.error_exit = on_error;
  r.manager.emit_message = on_message;
  r.manager.output_message = no_output;
  r.progress.progress_monitor = on_progress;
  read_or_leave(&r);
  jpeg_destroy_decompress(&r.jpeg);
  return r.status;
}
