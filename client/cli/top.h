/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_TOP_H
#define CLIENT_CLI_TOP_H

#include <stdint.h>

#include <gpuctr/gpuctr.h>

#include "client/cli/frame.h"
#include "client/cli/select.h"
#include "client/cli/summary.h"

/* "top": what is looked at, again and again. verb_top.c has the loop, the keys and the terminal. */

struct top_options {
	const char *socket, *sort, *kernel;
	struct keys keys;
	struct strings metrics, devices, files;
	struct selector selector;
	uint64_t interval_ns, frames; /* frames 0: until it is ended */
	size_t width;		      /* 0: the terminal's */
	bool no_wait, help;
};

/* How it is to be shown now. */
struct top_look {
	size_t width, height; /* height 0: as many lines as there are */
	unsigned sort;	      /* how often the order was changed */
	unsigned page;	      /* the next columns, how often */
	size_t scroll;	      /* rows further down are wanted */
};

/* Something to look at: the daemon, capture files, or a capture of one's own. */
struct top_source {
	/* NULL: what cannot be was told. */
	void *(*open)(const struct top_options *o);
	void (*close)(void *state);
	/* The connection, or NULL when it has none now. */
	struct gpuctr *(*connection)(void *state);
	/* Once an interval: look again, or ask. */
	void (*look)(void *state);
	/* Has something come since the last drawing that is worth one? */
	bool (*is_fresh)(const void *state);
	/* Nothing will change any more. A positive number is an exit status, and has been told. */
	int (*is_over)(const void *state);
	/* 0, or -EINVAL when what was asked for cannot be shown, with why. */
	int (*draw)(void *state, const struct top_look *look, struct frame *f, struct buf *why);
};

extern const struct top_source top_daemon, top_files, top_capture;

/* Is this an order of the daemon's captures? NULL is. */
bool top_daemon_sorts(const char *name);

/* --- what they have in common --- */

/* A summary as tables, of which one page is shown. 0, or -EINVAL with why. */
int top_add_kernels(struct summary *s, const char *sort, const struct top_look *look,
		    struct frame *f, struct buf *why);

/* How much more a number became in a second, told from time to time. */
struct top_rate {
	uint64_t value, at_ns;
	double per_second; /* NaN: not known yet */
};
void top_rate_update(struct top_rate *r, uint64_t value, uint64_t now_ns);
/* "1,234/s" or "-". */
void top_rate_add(const struct top_rate *r, struct buf *b);
/* ", 1,234/s", or nothing. */
void top_rate_add_behind(const struct top_rate *r, struct buf *b);

uint64_t top_now_ns(void);

#endif
