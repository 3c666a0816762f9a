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
/* The error behind the result of a call of the library, which is not 0; g may be NULL. */
void say_failure(struct gpuctr *g, int result);
/* The same as "gpuctr: warning[...]". */
void say_warning(const char *name, const char *message, const char *remedy);
/* "gpuctr-client: ..." for a wrong command line. */
__attribute__((format(printf, 1, 2))) void say_usage(const char *format, ...);
/* "gpuctr: ..." */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* The prefix of each message, for one of several nodes; borrowed. NULL: none. */
void say_set_node(const char *node);

/* Lines that are safe already. */
struct buf;
void say_text(const struct buf *text);

/* A line that replaces the one before: rewritten in place on a terminal. Elsewhere it is printed as
 * a line of its own, and the caller takes care that this is not too often. */
void say_status(const char *text);
/* Takes the status line away. */
void say_clear(void);
