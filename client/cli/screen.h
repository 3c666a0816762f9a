/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_SCREEN_H
#define CLIENT_CLI_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "client/cli/buf.h"

/* The whole terminal, for as long as something is shown on it that changes. */
struct screen {
	int fd;		     /* the terminal, opened anew; -1: not open */
	struct termios were; /* settings to come back to */
	struct buf out;	     /* what it has not taken yet */
	size_t written;	     /* of that */
	unsigned char keys[16];
	size_t n_keys;
	bool shown; /* it is ours, not the shell's */
};

enum screen_key {
	SCREEN_NONE = -1, /* nothing was pressed, or nothing that is known */
	/* A character is its own number. */
	SCREEN_UP = 256,
	SCREEN_DOWN,
	SCREEN_LEFT,
	SCREEN_RIGHT,
	SCREEN_PAGE_UP,
	SCREEN_PAGE_DOWN,
	SCREEN_HOME,
	SCREEN_END,
};

/* Columns of the terminal at fd, $COLUMNS, or 120. */
size_t screen_width(int fd);
/* Can standard output be drawn upon, and keys be read? */
bool screen_is_there(void);

/* 0 or a negative errno. One screen at a time: the program's end by a fault gives it back, too. */
int screen_open(struct screen *s);
/* Gives the terminal back as it was, and takes it again. close: takes one that is not open. */
void screen_leave(struct screen *s);
int screen_enter(struct screen *s);
void screen_close(struct screen *s);

void screen_size(const struct screen *s, size_t *ret_width, size_t *ret_height);

/* POLLIN, POLLOUT for poll(2). */
short screen_events(const struct screen *s);
/* Has it taken all that was written? */
bool screen_is_idle(const struct screen *s);
/* Begins to write; flush goes on with it, never waits. 0, or a negative errno: it is gone. */
int screen_write(struct screen *s, const struct buf *text);
int screen_flush(struct screen *s);

/* Reads what was typed, never waits. 0, or a negative errno: it is gone. Then the keys. */
int screen_read(struct screen *s);
int screen_key(struct screen *s);

#endif
