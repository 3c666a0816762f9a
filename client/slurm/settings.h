/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What the administrator says in plugstack.conf, and the user on the command line. */
enum settings_mode {
	SETTINGS_OFF,
	SETTINGS_STANDBY, /* registered, and captured when somebody asks */
	SETTINGS_MEASURE, /* from the start */
};

struct settings {
	/* plugstack.conf: borrowed from Slurm, which keeps them. */
	const char *socket, *agent, *client;
	bool with_socket; /* it was named */
	unsigned wait_s;  /* for the GPUs, before a task runs unmeasured */
	unsigned drain_s; /* for the last records, after the last task */

	/* The value of --gpuctr and others; whoever replaces one frees it. */
	enum settings_mode mode;
	char *metrics, *output, *filter;
};

void settings_init(struct settings *s);

/* One word of plugstack.conf. NULL, or what is wrong with it. */
const char *settings_take_word(struct settings *s, const char *word);

enum settings_option {
	SETTINGS_GPUCTR,
	SETTINGS_OUTPUT,
	SETTINGS_FILTER,
	SETTINGS_WAIT,
};
/* The value of an option. NULL, or what is wrong with it. May be called again for the same. */
const char *settings_take_option(struct settings *s, enum settings_option option,
				 const char *value);
