/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SAY_H
#define CLIENT_CLI_SAY_H

#include <stdbool.h>
#include <stddef.h>

#include <gpuctr/gpuctr.h>

/* All that the client itself tells, on stderr: the program has stdout. Text from outside is made
 * safe for a terminal. */

/* "gpuctr-client: error[metric-unknown]: MESSAGE" and "  remedy: REMEDY". */
void say_error(const char *name, const char *message, const char *remedy);
void say_gpuctr_error(const struct gpuctr_error *error);
/* The same as "gpuctr: warning[...]". */
void say_warning(const char *name, const char *message, const char *remedy);
/* "gpuctr-client: ..." for a wrong command line. */
__attribute__((format(printf, 1, 2))) void say_usage(const char *format, ...);
/* "gpuctr: ..." */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Set before each message, for one of several nodes; borrowed. NULL: nothing is. */
void say_set_node(const char *node);

/* While the terminal shows something else, messages are kept; they come when it no longer does. */
void say_hold(bool on);

/* Lines that are safe already. */
struct buf;
void say_text(const struct buf *text);

/* A line that replaces the one before: rewritten in place on a terminal. Elsewhere it is printed as
 * a line of its own, and the caller takes care that this is not too often. */
void say_status(const char *text);
/* Takes the status line away. */
void say_clear(void);

bool say_is_terminal(void);
/* Columns of the terminal on stderr, $COLUMNS, or 120. */
size_t say_width(void);

#endif
