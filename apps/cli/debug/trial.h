/* trial.h -- one model run in several ways on the same inputs. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H
#include "tolerance.h"
#include "cli/open.h"

/* A way to run a model, where the options of the command leave it open; NULL: the default, or nothing. */
typedef struct cli_way {
  const char *backend;
  const char *disabled_passes, *disabled_kernels;
  const char *taps;
  bool float64;     /* of the arbiter */
  bool alone;       /* each tapped node runs on values of its own: they are inputs, behind the model's */
  const char *path; /* of the model; NULL: operand 0. Another model takes the feed's values in its order */
  char *where;      /* room for CLI_WHERE bytes: gets the name of each step when it begins; or NULL */
} cli_way;
enum { CLI_WHERE = 512 };
/* What a process that runs a trial leaves behind: code that a person has changed may crash. */
typedef struct cli_outcome {
  td_status status;
  td_error err;
  char where[CLI_WHERE]; /* the step that runs */
} cli_outcome;
/* `where` gets the name of each step of the session when it begins. */
td_status cli_watch_steps(cli_args *args, const td_model *model, td_session *session, char *where, td_error *err);

typedef struct cli_trial {
  td_model *model;
  td_session *session;
  size_t count;
  const char **names; /* of the outputs */
  base_value *values; /* borrowed from the session */
} cli_trial;

/* The way that the options of a command ask for. */
cli_way cli_way_asked(const cli_args *args);
/* Loads operand 0 that way and runs it on what `feed` has; a feed whose count is 0 is made first, for this model. The
 * trial is closed also after a failure. */
td_status cli_trial_run(cli_args *args, const cli_way *way, app_feed *feed, cli_trial *trial, td_error *err);
/* The same without the run: to look at what operand 0 becomes. */
td_status cli_trial_open(cli_args *args, const cli_way *way, cli_trial *trial, td_error *err);
/* Outputs of the same names as those of `like`, recorded as FOLDER/NAME.npy, as `treadle run --output` writes them. */
td_status cli_trial_recorded(cli_args *args, const cli_trial *like, const char *folder, cli_trial *trial,
                             td_error *err);
void cli_trial_close(cli_trial *trial);

/* --rtol and --atol. */
td_status cli_tolerance_asked(const cli_args *args, cli_tolerance *tolerance, td_error *err);
#endif
