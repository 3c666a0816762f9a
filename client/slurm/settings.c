/* SPDX-License-Identifier: Apache-2.0 */
#include "client/slurm/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_S = 60, DRAIN_S = 30, SECONDS_MAX = 86400 };

void settings_init(struct settings *s)
{
	*s = (struct settings){
		.socket = GPUCTR_DEFAULT_SOCKET,
		.agent = GPUCTR_AGENT_PATH,
		.client = GPUCTR_CLIENT_PATH,
		.wait_s = WAIT_S,
		.drain_s = DRAIN_S,
	};
}

static const char *take_seconds(unsigned *ret, const char *value)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(value, &end, 10);
	if (errno != 0 || end == value || *end || value[0] == '-' || n > SECONDS_MAX) {
		return "is not a number of seconds";
	}
	*ret = (unsigned)n;
	return NULL;
}

static const char *take_path(const char **ret, const char *value)
{
	if (value[0] != '/') {
		return "is not an absolute path";
	}
	*ret = value;
	return NULL;
}

static bool take_mode(struct settings *s, const char *value)
{
	bool is_off = strcmp(value, "off") == 0;

	if (!is_off && strcmp(value, "standby") != 0) {
		return false;
	}
	s->mode = is_off ? SETTINGS_OFF : SETTINGS_STANDBY;
	return true;
}

/* The value behind NAME=; NULL: the word has another name. */
static const char *value_of(const char *word, const char *name)
{
	size_t n = strlen(name);

	return strncmp(word, name, n) == 0 && word[n] == '=' ? word + n + 1 : NULL;
}

const char *settings_take_word(struct settings *s, const char *word)
{
	const struct {
		const char *name, **path;
		unsigned *seconds;
	} known[] = {
		{ "socket", &s->socket, NULL }, { "agent", &s->agent, NULL },
		{ "client", &s->client, NULL }, { "wait", NULL, &s->wait_s },
		{ "drain", NULL, &s->drain_s },
	};
	const char *value = value_of(word, "default");

	if (value) {
		return take_mode(s, value) ? NULL : "is neither default=standby nor default=off";
	}
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if ((value = value_of(word, known[i].name))) {
			s->with_socket |= i == 0;
			return known[i].path ? take_path(known[i].path, value)
					     : take_seconds(known[i].seconds, value);
		}
	}
	return "is not known: there are socket=, agent=, client=, wait=, drain= and default=";
}

/* --- options --------------------------------------------------------------------------------- */

static const char *keep(char **ret, const char *value)
{
	char *copy = strdup(value);

	if (!copy) {
		return "cannot be kept: out of memory";
	}
	free(*ret);
	*ret = copy;
	return NULL;
}

static const char *take_gpuctr(struct settings *s, const char *value)
{
	if (take_mode(s, value)) {
		return NULL;
	}
	s->mode = SETTINGS_MEASURE;
	return keep(&s->metrics, value);
}

/* Checks the letters of gpuctr-client's -o, so that an unknown one is refused when the job is
 * submitted, and not when it runs. */
static const char *take_output(struct settings *s, const char *value)
{
	for (const char *p = strchr(value, '%'); p; p = strchr(p + 2, '%')) {
		if (p[1] == '\0' || !strchr("hujJntrp%", p[1])) {
			return "has a '%' that stands for nothing: there are %h host, %u user, "
			       "%j job, %J job.step, %n node, %t task, %r rank, %p pid, %%";
		}
	}
	return keep(&s->output, value);
}

const char *settings_take_option(struct settings *s, enum settings_option option, const char *value)
{
	if (!value || !*value) {
		return "needs a value";
	}
	switch (option) {
	case SETTINGS_GPUCTR:
		return take_gpuctr(s, value);
	case SETTINGS_OUTPUT:
		return take_output(s, value);
	case SETTINGS_FILTER:
		return keep(&s->filter, value);
	case SETTINGS_WAIT:
		return take_seconds(&s->wait_s, value);
	}
	return "is no option of this plugin";
}
