/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_REPORT_HTML_H
#define CLIENT_CLI_REPORT_HTML_H

#include "client/cli/options.h"
#include "client/report/page.h"

/* "report --html": writes the page on these captures, whose values are attributed anew if they
 * shall be. Returns the exit status; what went wrong has been told, but what a definition is
 * refused for, which is in why. */
int report_html(const struct strings *files, const char *path, bool force, bool attributes,
		const struct strings *where, const struct page_options *options, struct buf *why);

#endif
