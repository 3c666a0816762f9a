/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/cli/options.h"
#include "client/report/page.h"

/* "report --html": writes the page of these captures. attributes: values are attributed again from
 * the samples in the files. Returns the exit status. Errors were printed, except the reason for a
 * refused definition, which is in why. */
int report_html(const struct strings *files, const char *path, bool force, bool attributes,
		const struct strings *where, const struct page_options *options, struct buf *why);
