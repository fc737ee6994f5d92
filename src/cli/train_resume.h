/* cli/train_resume.h - a resumed run takes its settings from config.resolved.toml in its folder. */
#ifndef KVSI_CLI_TRAIN_RESUME_H
#define KVSI_CLI_TRAIN_RESUME_H

#include "cli/train_options.h"

/* Replaces every setting by that of the run in s->out.  Options that were given must have the same
 * value, except those that may change on resume, such as steps: they keep the given value.  Does
 * nothing if the folder has no config.resolved.toml.  The caller settles `s` again afterwards. */
kvs_status kvsi_train_take_run(kvsi_train_options *s, kvsi_parsed_options *parsed, kvs_err *err);

/* Without --resume, a folder that holds a run already is refused. */
kvs_status kvsi_train_check_out(const kvsi_train_options *s, kvs_err *err);

#endif
