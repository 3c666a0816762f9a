/* SPDX-License-Identifier: Apache-2.0 */

/* The only writer to stderr. Each message is one write(2), so that it does not mix with what the
 * program prints at the same moment. The status line shares the terminal with the program: it is
 * dim, and leaves the cursor in the first column, where the output of the program then begins. */

#include "client/cli/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/cli/terminal.h"
#include "client/cli/text.h"

/* Whether a status line is on the terminal, and the prefix of each message. */
static bool status_shown;
static const char *node;

void say_set_node(const char *name)
{
	node = name;
}

static void write_all(const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDERR_FILENO, data, n);

		if (done < 0 && errno != EINTR) {
			return; /* nobody reads */
		}
		if (done > 0) {
			data += done;
			n -= (size_t)done;
		}
	}
}

static void put(struct buf *b)
{
	CLEAN_BUF struct buf all = { 0 };

	if (status_shown) {
		buf_text(&all, "\r\033[K");
		status_shown = false;
	}
	if (node) {
		buf_printf(&all, "%s: ", node);
	}
	buf_add(&all, b->data, b->n);
	write_all(all.data, all.n);
	buf_deinit(b);
}

/* color: parameter of a terminal's escape sequence; 31 is red, 33 yellow. */
static void put_message(const char *who, const char *head, unsigned color, const char *name,
			const char *message, const char *remedy)
{
	bool styled = terminal_has_style(STDERR_FILENO);
	struct buf b = { 0 };

	buf_text(&b, who);
	if (styled) {
		buf_printf(&b, "\033[1;%um", color);
	}
	buf_printf(&b, "%s[%s]%s: ", head, name, styled ? "\033[m" : "");
	text_printf(&b, "%s\n", message);
	if (remedy && *remedy) {
		text_printf(&b, "  remedy: %s\n", remedy);
	}
	put(&b);
}

void say_error(const char *name, const char *message, const char *remedy)
{
	put_message("gpuctr-client: ", "error", 31, name, message, remedy);
}

void say_gpuctr_error(const struct gpuctr_error *error)
{
	say_error(gpuctr_error_name(error->code), error->message, error->remedy);
}

void say_failure(struct gpuctr *g, int result)
{
	if (result > 0 && g) {
		say_gpuctr_error(gpuctr_last_error(g));
	} else {
		say_usage("%s", strerror(result < 0 ? -result : EIO));
	}
}

void say_warning(const char *name, const char *message, const char *remedy)
{
	put_message("gpuctr: ", "warning", 33, name, message, remedy);
}

static void put_formatted(const char *head, const char *format, va_list args)
{
	char *text;
	struct buf b = { 0 };

	if (vasprintf(&text, format, args) < 0) {
		return;
	}
	buf_text(&b, head);
	text_terminal(&b, text);
	buf_char(&b, '\n');
	free(text);
	put(&b);
}

void say_usage(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_formatted("gpuctr-client: ", format, args);
	va_end(args);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put_formatted("gpuctr: ", format, args);
	va_end(args);
}

void say_text(const struct buf *text)
{
	struct buf copy = { 0 };

	buf_add(&copy, text->data, text->n);
	put(&copy);
}

void say_status(const char *text)
{
	CLEAN_BUF struct buf b = { 0 }, safe = { 0 };
	bool dim = terminal_has_style(STDERR_FILENO);
	size_t width = terminal_width(STDERR_FILENO) - 1;

	text_terminal(&safe, text);
	if (!terminal_is(STDERR_FILENO)) {
		buf_printf(&b, "gpuctr: %s\n", buf_string(&safe));
		put(&b);
	} else {
		CLEAN_BUF struct buf line = { 0 };
		size_t n;

		buf_printf(&line, "gpuctr: %s", buf_string(&safe));
		n = text_fit(line.data, line.n, width);
		buf_printf(&b, dim ? "\r\033[K\033[2m%.*s\033[m\r" : "\r\033[K%.*s\r", (int)n,
			   buf_string(&line));
		write_all(b.data, b.n);
		status_shown = true;
	}
}

void say_clear(void)
{
	struct buf none = { 0 };

	if (status_shown) {
		put(&none);
	}
}
