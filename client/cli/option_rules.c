/* SPDX-License-Identifier: Apache-2.0 */

/* What options want of each other: tables of rules, in place of a check for each option. */

#include <stdio.h>
#include <string.h>

#include "client/cli/options.h"
#include "client/cli/say.h"

enum { NAME_MAX_BYTES = 32 };

/* The first of the names that was given. names: with a space between two. False: none was. */
static bool find_given(const struct option_def *defs, const char *names, uint64_t given,
		       char *ret_name)
{
	for (; *names; names += strcspn(names, " "), names += strspn(names, " ")) {
		snprintf(ret_name, NAME_MAX_BYTES, "%.*s", (int)strcspn(names, " "), names);
		if ((given & options_bit(defs, ret_name)) != 0) {
			return true;
		}
	}
	return false;
}

static bool keeps_rule(const struct option_def *defs, const struct option_rule *rule,
		       uint64_t given, unsigned modes)
{
	char other[NAME_MAX_BYTES];

	if ((given & options_bit(defs, rule->option)) == 0) {
		return true;
	}
	if (rule->excludes && find_given(defs, rule->excludes, given, other)) {
		say_usage("--%s and --%s: %s; leave one out", rule->option, other, rule->why);
		return false;
	}
	if ((rule->needs && !find_given(defs, rule->needs, given, other)) ||
	    (rule->modes != 0 && (rule->modes & modes) == 0)) {
		say_usage("--%s %s", rule->option, rule->why);
		return false;
	}
	return true;
}

bool options_keep_rules(const struct option_def *defs, const struct option_rule *rules,
			uint64_t given, unsigned modes)
{
	for (; rules->option; rules++) {
		if (!keeps_rule(defs, rules, given, modes)) {
			return false;
		}
	}
	return true;
}
