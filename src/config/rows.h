/* config/rows.h - macros for the rows of the tables in this folder.  Each file defines
 * FIELD(member) as the offset of a member of its struct. */
#ifndef KVSI_CONFIG_ROWS_H
#define KVSI_CONFIG_ROWS_H

#include "config/config.h"

/* Each macro is the beginning of a row: {SIZE("dim", dim, GROUP, "help"), .low = 1, ...} */
#define ROW(option, type, member, in, what, about)                                                 \
    .name = (option), .kind = (type), .offset = FIELD(member), .group = (in),                      \
    .placeholder = (what), .help = (about)
#define FLAG(option, member, in, about) ROW(option, KVSI_SETTING_FLAG, member, in, NULL, about)
#define SIZE(option, member, in, about) ROW(option, KVSI_SETTING_SIZE, member, in, "N", about)
#define COUNT(option, member, in, about) ROW(option, KVSI_SETTING_UINT64, member, in, "N", about)
#define REAL(option, member, in, about) ROW(option, KVSI_SETTING_REAL, member, in, "X", about)
#define ENUM(option, member, in, about, values)                                                    \
    ROW(option, KVSI_SETTING_ENUM, member, in, "NAME", about), .names = (values)

/* Initializes a kvsi_settings from an array of rows. */
#define TABLE(what, array)                                                                         \
    {                                                                                              \
        .rows = (array), .count = sizeof(array) / sizeof *(array), .name = (what)                  \
    }

#endif
