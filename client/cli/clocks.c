/* SPDX-License-Identifier: Apache-2.0 */

/* A line is "clock", then behind tabs: the node, its time now and its time when it began, in ns.
 * The node read its clock after we sent the request and before we received the line. So its
 * clock is ahead of ours by at least its time minus our time of receiving, and by at most its
 * time minus our time of sending. Several lines of a node narrow this interval; clocks_print()
 * reports only what is certain. */

#include "client/cli/clocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"

/* Clocks kept by NTP differ by less; such differences are not reported. */
#define CERTAIN_NS INT64_C(100000000)

struct node_clock {
	char node[64];
	int64_t least_ns, most_ns; /* that it is ahead of ours */
	uint64_t begun_ns;	   /* 0: has not */
};

void clocks_deinit(struct clocks *c)
{
	free(c->items);
	*c = (struct clocks){ 0 };
}

/* --- lines ----------------------------------------------------------------------------------- */

void clocks_write(FILE *f, const char *node, uint64_t now_ns, uint64_t begun_ns)
{
	fprintf(f, "clock\t%s\t%" PRIu64 "\t%" PRIu64 "\n", node, now_ns, begun_ns);
	fflush(f);
}

static struct node_clock *find(struct clocks *c, const char *node)
{
	struct node_clock *items;

	for (size_t i = 0; i < c->n; i++) {
		if (strcmp(c->items[i].node, node) == 0) {
			return &c->items[i];
		}
	}
	items = realloc(c->items, (c->n + 1) * sizeof(*items));
	if (!items) {
		return NULL;
	}
	c->items = items;
	items[c->n] = (struct node_clock){ .least_ns = INT64_MIN, .most_ns = INT64_MAX };
	snprintf(items[c->n].node, sizeof(items[c->n].node), "%s", node);
	return &items[c->n++];
}

bool clocks_read(struct clocks *c, const char *line, uint64_t now_ns)
{
	uint64_t its_ns, begun_ns;
	struct node_clock *clock;
	int64_t least_ns, most_ns;
	char node[64];

	if (sscanf(line, "clock\t%63[^\t]\t%" SCNu64 "\t%" SCNu64, node, &its_ns, &begun_ns) != 3) {
		return false;
	}
	clock = find(c, node);
	if (!clock) {
		return true;
	}
	least_ns = (int64_t)(its_ns - now_ns);
	most_ns = (int64_t)(its_ns - c->asked_ns);
	clock->least_ns = least_ns > clock->least_ns ? least_ns : clock->least_ns;
	clock->most_ns = most_ns < clock->most_ns ? most_ns : clock->most_ns;
	clock->begun_ns = begun_ns ? begun_ns : clock->begun_ns;
	return true;
}

/* --- what they say --------------------------------------------------------------------------- */

/* The least difference that is certain; 0: the clock may be right. */
static int64_t wrong_ns(const struct node_clock *clock)
{
	if (clock->least_ns > CERTAIN_NS) {
		return clock->least_ns;
	}
	return clock->most_ns < -CERTAIN_NS ? clock->most_ns : 0;
}

static void print_wrong(const struct node_clock *clock, struct buf *b)
{
	int64_t ns = wrong_ns(clock);

	text_terminal(b, clock->node);
	buf_text(b, "'s clock is at least ");
	text_time(b, (double)(ns > 0 ? ns : -ns));
	buf_printf(b, " %s this machine's, and so are the times in its records\n",
		   ns > 0 ? "ahead of" : "behind");
}

void clocks_print(const struct clocks *c, struct buf *b)
{
	uint64_t first = UINT64_MAX, last = 0;
	size_t n = 0;
	bool wrong = false;

	for (size_t i = 0; i < c->n; i++) {
		const struct node_clock *clock = &c->items[i];
		uint64_t begun = clock->begun_ns - (uint64_t)wrong_ns(clock);

		if (wrong_ns(clock) != 0) {
			print_wrong(clock, b);
			wrong = true;
		}
		if (clock->begun_ns > 0) {
			n++;
			first = begun < first ? begun : first;
			last = begun > last ? begun : last;
		}
	}
	if (n > 1) {
		buf_printf(b, "%zu nodes began %s", n, wrong ? "about " : "");
		text_time(b, (double)(last - first));
		buf_printf(b, " apart, by their clocks%s\n",
			   wrong ? " less these differences" : "");
	}
}
