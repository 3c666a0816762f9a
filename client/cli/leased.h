/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A command under a lease: one connection, one command that may use the counters, signals. The
 * caller ("permit") decides what the command is and what is printed about it. */

#include "client/cli/child.h"
#include "client/cli/options.h"
#include "client/cli/progress.h"
#include "client/cli/signals.h"

struct leased_options {
	const struct strings *devices; /* none: all */
	const char *socket, *agent;
	uint64_t timeout_ns;
	bool no_wait, inject, quiet;
	bool may_hide;	     /* none: those that $CUDA_VISIBLE_DEVICES leaves */
	const char *program; /* as those who wait see it */
};

enum leased_state { LEASED_WAITING, LEASED_RUNNING, LEASED_ALONE, LEASED_ENDING, LEASED_OVER };

struct leased;

struct leased_user {
	const char *interrupted;  /* said when a signal comes before the command was started */
	const char *disconnected; /* said when the daemon goes before that */
	void (*on_opened)(struct leased *l, const struct gpuctr_opened *opened);
	/* Starts the command as l->child, with added in its environment. False: an error was
	 * printed, and *ret_status is set. */
	bool (*start)(struct leased *l, const char *const *added, int *ret_status);
	/* While the command runs. */
	void (*on_early_end)(struct leased *l, const struct gpuctr_error *error);
	/* The command has ended; l->status is its. */
	void (*on_command_end)(struct leased *l);
	/* The lease ended as asked, after the command had ended. */
	void (*on_closed)(struct leased *l, const struct gpuctr_end *end);
};

/* Zero-initialised by the caller, but for user, data and options. */
struct leased {
	const struct leased_user *user;
	void *data; /* the user's */
	struct leased_options options;
	int status; /* exit status */

	enum leased_state state;
	int ticks; /* in ENDING */
	bool connected;
	struct gpuctr *g;
	struct gpuctr_capture *capture; /* NULL: not open */
	struct child child;
	struct signals signals;
	struct progress progress;
	struct strings visible;
};

/* Waits for the lease, runs the command to its end, and returns the exit status. */
int leased_run(struct leased *l);
