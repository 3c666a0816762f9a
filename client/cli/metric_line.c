/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/metric_line.h"

#include "client/cli/text.h"

enum { NAME_WIDTH = 60, KIND_WIDTH = 10 };

void metric_line(struct buf *b, const char *head, const char *name, const char *kind,
		 const char *unit)
{
	CLEAN_BUF struct buf safe = { 0 };

	buf_text(&safe, head);
	text_terminal(&safe, name);
	text_pad(b, buf_string(&safe), NAME_WIDTH, false);
	buf_text(b, "  ");
	if (kind) {
		text_pad(b, kind, KIND_WIDTH + 2, false);
	}
	text_terminal(b, unit && *unit ? unit : "-");
	buf_char(b, '\n');
	b->failed |= safe.failed;
}
