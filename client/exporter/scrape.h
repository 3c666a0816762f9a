/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/exporter/metrics.h"

/* The last status of the daemon, as text. The daemon is asked at most once a second, however many
 * clients ask for metrics: they get the last text. */
struct scrape {
	const char *socket; /* NULL: the default */
	struct buf text[METRICS_SYNTAXES];
	uint64_t made_ns, keep_ns;
	uint64_t began_ns; /* when the daemon's counts began, in unix time */
	int said;	   /* the error that was logged last, not to be logged again */
};

/* Makes s->text current. When the daemon hangs this blocks for at most SCRAPE_PATIENCE_MS and the
 * five seconds of gpuctr_connect(). */
void scrape_refresh(struct scrape *s);
void scrape_deinit(struct scrape *s);

enum { SCRAPE_KEEP_MS = 1000, SCRAPE_KEEP_FAILURE_MS = 5000, SCRAPE_PATIENCE_MS = 2000 };
