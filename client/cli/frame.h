/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_FRAME_H
#define CLIENT_CLI_FRAME_H

#include "client/cli/buf.h"

/* What "top" shows at once: lines of any width, of which the first ones stay when the others are
 * scrolled. Texts are safe for a terminal before they come here. Zero-initialised by the caller. */

enum look { LOOK_PLAIN, LOOK_TITLE, LOOK_DIM };

struct frame_line {
	size_t end; /* in text */
	enum look look;
};

struct frame {
	struct buf text;
	struct frame_line *lines;
	size_t n, max;
	size_t n_head; /* lines that stay */
	bool failed;   /* out of memory */
};

void frame_clear(struct frame *f);
void frame_deinit(struct frame *f);

/* Ends the line that was appended to f->text. */
void frame_end_line(struct frame *f, enum look look);
/* A line, or several with ends of lines between them. */
void frame_add(struct frame *f, const char *text, enum look look);
/* The lines until now stay. */
void frame_fix_head(struct frame *f);

/* How far it can be scrolled on a terminal of this height, of which a line is not the frame's. */
size_t frame_scroll_max(const struct frame *f, size_t height);

/* For a terminal, from its upper left corner on, with foot in the last line. */
void frame_draw(const struct frame *f, const char *foot, size_t width, size_t height, size_t scroll,
		bool plain, struct buf *b);
/* For anything else: all lines, at most width columns of each. */
void frame_print(const struct frame *f, size_t width, struct buf *b);

#endif
