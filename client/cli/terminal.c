/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { WIDTH_MIN = 20, WIDTH_MAX = 1000, USUAL_WIDTH = 120 };

bool terminal_is(int fd)
{
	const char *term = getenv("TERM");

	return isatty(fd) && (!term || strcmp(term, "dumb") != 0);
}

bool terminal_has_style(int fd)
{
	const char *no_color = getenv("NO_COLOR");

	return terminal_is(fd) && (!no_color || !*no_color);
}

size_t terminal_width(int fd)
{
	const char *columns = getenv("COLUMNS");
	struct winsize size;
	long n;

	if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_MIN) {
		return size.ws_col;
	}
	n = columns ? strtol(columns, NULL, 10) : 0;
	return n >= WIDTH_MIN && n <= WIDTH_MAX ? (size_t)n : USUAL_WIDTH;
}

void terminal_bold(struct buf *b, bool styled, const char *text)
{
	buf_text(b, styled ? "\033[1m" : "");
	buf_text(b, text);
	buf_text(b, styled ? "\033[m" : "");
}
