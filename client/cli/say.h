/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

/* Messages of the client, on stderr, because stdout is the program's. Text from outside is made
 * safe for a terminal. */

/* "gpuctr-client: error[metric-unknown]: MESSAGE" and "  remedy: REMEDY". */
void say_error(const char *name, const char *message, const char *remedy);
void say_gpuctr_error(const struct gpuctr_error *error);
/* Reports the error of a library call. result: what the call returned, not 0; g may be NULL. */
void say_failure(struct gpuctr *g, int result);
/* As say_error(), but "gpuctr: warning[...]". */
void say_warning(const char *name, const char *message, const char *remedy);
/* "gpuctr-client: ..." for a wrong command line. */
__attribute__((format(printf, 1, 2))) void say_usage(const char *format, ...);
/* "gpuctr: ..." */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* The prefix of each message, for one of several nodes; borrowed. NULL: none. */
void say_set_node(const char *node);

/* Prints lines that are safe for a terminal already. */
struct buf;
void say_text(const struct buf *text);

/* Shows a status line, which replaces the status line before on a terminal. Elsewhere it is a line
 * of its own, and the caller takes care not to print too many. */
void say_status(const char *text);
/* Removes the status line. */
void say_clear(void);
