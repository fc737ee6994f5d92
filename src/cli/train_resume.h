/* cli/train_resume.h - a run that is resumed has its own settings, those of its folder's
 * config.resolved.toml. */
#ifndef KVSI_CLI_TRAIN_RESUME_H
#define KVSI_CLI_TRAIN_RESUME_H

#include "cli/train_options.h"

/* Every setting becomes that of the run in s->out.  What was given must be the same, but for
 * settings that a run may change when it is resumed, such as its steps: those are kept.  Without a
 * config.resolved.toml there nothing changes.  `s` was settled; it is to be settled anew. */
kvs_status kvsi_train_take_run(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err);

/* Without --resume, a folder that holds a run already is refused. */
kvs_status kvsi_train_check_out(const kvsi_train_settings *s, kvs_err *err);

#endif
