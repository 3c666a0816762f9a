/* SPDX-License-Identifier: Apache-2.0 */

/* Candidates land on command lines, and other users chose some of the names. So only candidates are
 * printed that consist of letters, digits and a few marks without a meaning to any shell. */

#include "client/cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/text.h"

static bool is_harmless(const char *text)
{
	return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					  "0123456789_.:/+@%=,-")] == '\0';
}

void completion_offer(const struct completion *c, const char *text, const char *description)
{
	CLEAN_BUF struct buf b = { 0 };

	if (strncmp(text, c->typed, strlen(c->typed)) != 0 || !is_harmless(text)) {
		return;
	}
	buf_add(&b, c->given, c->n_given);
	buf_text(&b, text);
	if (description && *description) {
		buf_char(&b, '\t');
		text_terminal(&b, description);
	}
	puts(buf_string(&b));
}
