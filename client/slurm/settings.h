/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What the administrator sets in plugstack.conf, and the user on the command line. */
enum settings_mode {
	SETTINGS_OFF,
	SETTINGS_STANDBY, /* registered with the daemon, captured when somebody asks */
	SETTINGS_MEASURE, /* captured from the start */
};

struct settings {
	/* plugstack.conf: borrowed from Slurm, which keeps them. */
	const char *socket, *agent, *client;
	bool with_socket; /* plugstack.conf names the socket */
	unsigned wait_s;  /* longest wait for the GPUs, before a task runs unmeasured */
	unsigned drain_s; /* longest wait for the last records, after the last task */

	/* Values of --gpuctr and others; settings_take_option() frees those that it replaces. */
	enum settings_mode mode;
	char *metrics, *output, *filter;
};

void settings_init(struct settings *s);

/* Takes one word of plugstack.conf. Returns NULL, or what is wrong with the word. */
const char *settings_take_word(struct settings *s, const char *word);

enum settings_option {
	SETTINGS_GPUCTR,
	SETTINGS_OUTPUT,
	SETTINGS_FILTER,
	SETTINGS_WAIT,
};
/* Takes the value of an option, which may come again. Returns NULL, or what is wrong. */
const char *settings_take_option(struct settings *s, enum settings_option option,
				 const char *value);
