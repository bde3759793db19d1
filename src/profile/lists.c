/* lists.c -- rows for machines: CSV (RFC 4180) and JSON. All sums are of all recorded runs together; behind them stand
 * the figures of columns.c that are ratios. */
#include <math.h>

#include "profile/profile_priv.h"

static void put_csv_text(prof_out *out, const char *text, size_t length) {
  prof_put(out, "\"");
  for (size_t i = 0; i < length; i++)
    if (text[i] == '"') prof_put(out, "\"\"");
    else base_text_add(&out->text, text + i, 1);
  prof_put(out, "\"");
}

td_status prof_write_csv(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                         prof_out *out, td_error *err) {
  prof_rows rows;
  TRY(prof_rows_make(source, view, allocator, &rows, err));
  const td_profile_totals totals = prof_totals(source);
  prof_put(out, "name,op,kernel,steps,calls,ns,self_ns,busy_ns,flop,bytes,limit_ns");
  for (int i = 0; i < PROF_COLUMNS; i++)
    if (prof_columns[i].key) prof_print(out, ",%s", prof_columns[i].key);
  prof_put(out, "\r\n");
  for (uint32_t i = 0; i < rows.count; i++) {
    const prof_row *row = &rows.at[i];
    const base_str texts[] = {
        {row->name, row->name_length}, base_str_of(row->first->op), base_str_of(row->first->kernel)};
    for (size_t k = 0; k < 3; k++) {
      put_csv_text(out, texts[k].at, texts[k].length);
      prof_put(out, ",");
    }
    prof_print(out, "%u,%llu,%llu,%llu,%llu,%.0f,%.0f,%.0f", row->steps, (unsigned long long)row->calls,
               (unsigned long long)row->ns, (unsigned long long)row->self_ns, (unsigned long long)row->busy_ns,
               row->flops, row->bytes, 1e6 * row->limit_ms);
    for (int k = 0; k < PROF_COLUMNS; k++)
      if (prof_columns[k].key) prof_print(out, ",%.6g", prof_columns[k].value(row, &totals));
    prof_put(out, "\r\n");
  }
  prof_rows_free(&rows);
  return TD_OK;
}

static void put_json_row(const prof_source *source, const td_profile_totals *totals, prof_out *out,
                         const prof_row *row) {
  prof_put(out, "{\"name\": ");
  base_text_quote(&out->text, row->name, row->name_length);
  prof_put(out, ", \"op\": ");
  prof_quote(out, row->first->op);
  prof_put(out, ", \"kernel\": ");
  prof_quote(out, row->first->kernel);
  if (row->steps == 1 && row->first->variant && *row->first->variant) {
    prof_put(out, ", \"variant\": ");
    prof_quote(out, row->first->variant);
  }
  prof_print(out,
             ", \"steps\": %u, \"calls\": %llu, \"ns\": %llu, \"self_ns\": %llu, \"busy_ns\": %llu, \"flop\": %.0f, "
             "\"bytes\": %.0f, \"limit_ns\": %.0f, \"spread_ns\": %.0f, \"least_ns\": %llu",
             row->steps, (unsigned long long)row->calls, (unsigned long long)row->ns, (unsigned long long)row->self_ns,
             (unsigned long long)row->busy_ns, row->flops, row->bytes, 1e6 * row->limit_ms, sqrt(row->variance_ns2),
             (unsigned long long)row->least_ns);
  for (int i = 0; i < PROF_COLUMNS; i++)
    if (prof_columns[i].key) prof_print(out, ", \"%s\": %.6g", prof_columns[i].key, prof_columns[i].value(row, totals));
  prof_put(out, ", \"nodes\": [");
  for (size_t i = 0; row->steps == 1 && i < prof_origin_count(source, row->step); i++) {
    const base_str node = prof_origin(source, row->step, i);
    prof_put(out, i ? ", " : "");
    base_text_quote(&out->text, node.at, node.length);
  }
  prof_put(out, "]}");
}

td_status prof_write_json(const prof_source *source, const td_profile_view *view, const td_allocator *allocator,
                          prof_out *out, td_error *err) {
  prof_rows rows;
  TRY(prof_rows_make(source, view, allocator, &rows, err));
  const td_profile_totals t = prof_totals(source);
  prof_put(out, "{\"model\": ");
  prof_quote(out, source->model);
  prof_put(out, ", \"machine\": ");
  prof_quote(out, source->machine);
  prof_print(
      out,
      ", \"runs\": %llu, \"threads\": %u, \"run_ms\": %.6f, \"step_ms\": %.6f, \"busy_ms\": %.6f, \"flop\": %.0f, "
      "\"bytes\": %.0f, \"limit_ms\": %.6f,\n",
      (unsigned long long)t.runs, t.threads, t.run_ms, t.step_ms, t.busy_ms, t.flops, t.bytes, t.limit_ms);
  prof_print(out,
             "\"self_ms\": %.6f, \"wait_ms\": %.6f, \"between_ms\": %.6f, \"single_ms\": %.6f, \"late_ms\": %.6f, "
             "\"early_ms\": %.6f,\n\"rows\": [",
             t.self_ms, t.wait_ms, t.between_ms, t.single_ms, t.late_ms, t.early_ms);
  for (uint32_t i = 0; i < rows.count; i++) {
    prof_put(out, i ? ",\n" : "\n");
    put_json_row(source, &t, out, &rows.at[i]);
  }
  prof_put(out, "\n]}\n");
  prof_rows_free(&rows);
  return TD_OK;
}
