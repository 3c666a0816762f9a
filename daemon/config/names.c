/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config/names.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clean.h"

/* Parses the number of a user or group. False: not a number, or the largest number, which means
 * "none" to the kernel. */
static bool parse_id(const char *text, uint32_t *ret)
{
	char *end;
	unsigned long id;

	errno = 0;
	id = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end != '\0' || errno != 0 || id >= UINT32_MAX) {
		return false;
	}
	*ret = (uint32_t)id;
	return true;
}

/* Appends an unknown name to error, which collects those of one list. Refuses a word that cannot be
 * a name, because it is a slip. */
static int report_nobody(const char *what, const char *name, char *error, size_t size)
{
	size_t used = strlen(error);

	if (!isalpha((unsigned char)*name) && *name != '_') {
		snprintf(error, size, "'%s' is neither the name nor the number of a %s", name,
			 what);
		return -EINVAL;
	}
	snprintf(error + used, size - used, used ? ", '%s'" : "there is no %s '%s'",
		 used ? name : what, name);
	return NAMES_E_NOBODY;
}

static int find(bool group, const char *name, uint32_t *ret, char *error, size_t size)
{
	const struct passwd *pw = group ? NULL : getpwnam(name);
	const struct group *gr = group ? getgrnam(name) : NULL;

	if (pw || gr) {
		*ret = pw ? pw->pw_uid : gr->gr_gid;
	} else if (!parse_id(name, ret)) {
		return report_nobody(group ? "group" : "user", name, error, size);
	}
	return 0;
}

/* Returns the next word of *rest and moves *rest behind it; NULL: none. */
static char *next_word(char **rest)
{
	char *word;

	do {
		word = strsep(rest, " ,\t");
	} while (word && *word == '\0');
	return word;
}

static void append_name(char text[POLICY_TEXT_BYTES], const char *name)
{
	size_t used = strlen(text);

	snprintf(text + used, POLICY_TEXT_BYTES - used, "%s%s", used ? " or " : "", name);
}

/* Adds users or groups to ids, which has *n entries. */
static int add(bool group, uint32_t ids[POLICY_NAMES_MAX], size_t *n, const char *value, char *text,
	       char *error, size_t size)
{
	CLEAN_FREE char *copy = strdup(value);
	char *rest = copy, *word;
	int r = copy ? 0 : -ENOMEM, nobody = 0;

	while (r >= 0 && (word = next_word(&rest)) != NULL) {
		if (*n == POLICY_NAMES_MAX) {
			snprintf(error, size, "more than %d %s", POLICY_NAMES_MAX,
				 group ? "groups" : "users: use a group");
			return -EINVAL;
		}
		r = find(group, word, &ids[*n], error, size);
		*n += r == 0;
		nobody |= r;
		if (r == 0 && text) {
			append_name(text, word);
		}
	}
	return r < 0 ? r : nobody;
}

int names_add_users(struct policy_names *n, const char *value, char *error, size_t size)
{
	if (strcmp(value, "*") == 0) {
		n->everybody = true;
		return 0;
	}
	return add(false, n->uids, &n->n_uids, value, NULL, error, size);
}

int names_add_groups(struct policy_names *n, const char *value, char *text, char *error,
		     size_t size)
{
	return add(true, n->gids, &n->n_gids, value, text, error, size);
}

static bool is_gpu(const char *word)
{
	uint32_t index;

	/* indices are compared as text, so 01 would never match */
	return (parse_id(word, &index) && index < 64 && (*word != '0' || word[1] == '\0')) ||
	       (strncmp(word, "GPU-", 4) == 0 && strlen(word) < POLICY_GPU_BYTES);
}

static int add_gpus(struct policy_rule *rule, char *rest, char *error, size_t size)
{
	char *word;

	while ((word = next_word(&rest)) != NULL) {
		if (!is_gpu(word) || rule->n_gpus == ARRAY_SIZE(rule->gpus)) {
			snprintf(error, size,
				 "'%s' is not one of at most %d GPUs, each by index (0 to 63) or "
				 "UUID (GPU-...); nvidia-smi -L lists them",
				 word, POLICY_RULE_GPUS_MAX);
			return -EINVAL;
		}
		snprintf(rule->gpus[rule->n_gpus++], POLICY_GPU_BYTES, "%s", word);
	}
	if (rule->n_gpus == 0) {
		snprintf(error, size, "no GPU is named: write GROUP GPU...");
		return -EINVAL;
	}
	return 0;
}

int names_add_rule(struct policy *p, const char *value, char *error, size_t size)
{
	CLEAN_FREE char *copy = strdup(value);
	char *rest = copy, *group = copy ? next_word(&rest) : NULL;
	struct policy_rule rule = { 0 };
	int r, found;

	if (!copy) {
		return -ENOMEM;
	}
	if (!group || p->n_rules == ARRAY_SIZE(p->rules)) {
		snprintf(error, size, group ? "more than %d rules" : "write GROUP GPU...",
			 POLICY_RULES_MAX);
		return -EINVAL;
	}
	found = find(true, group, &rule.gid, error, size);
	r = found < 0 ? found : add_gpus(&rule, rest, error, size);
	if (r == 0 && found == 0) {
		p->rules[p->n_rules++] = rule;
		append_name(p->groups_text, group);
	}
	return r < 0 ? r : found;
}
