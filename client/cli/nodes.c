/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/nodes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/child.h"
#include "client/cli/expand.h"
#include "client/cli/grid.h"
#include "client/cli/say.h"

struct node {
	char name[64], why[256];
	int status;
	uint64_t kernels;
};

void nodes_deinit(struct nodes *nodes)
{
	free(nodes->items);
	strings_deinit(&nodes->files);
}

/* --- lines ----------------------------------------------------------------------------------- */

void nodes_write(int status, uint64_t kernels)
{
	char why[256];

	snprintf(why, sizeof(why), "%s", say_first_error());
	for (char *p = why; *p; p++) {
		*p = (unsigned char)*p < ' ' || *p == 127 ? ' ' : *p;
	}
	printf("node\t%s\t%d\t%" PRIu64 "\t%s\n", expand_node(), status, kernels, why);
	fflush(stdout);
}

static void take_node(struct nodes *nodes, const char *line)
{
	struct node node = { .name = "" }, *items;
	int end = 0;

	if (sscanf(line, "node\t%63[^\t\n]\t%d\t%" SCNu64 "%n", node.name, &node.status,
		   &node.kernels, &end) < 3) {
		return;
	}
	if (line[end] == '\t') {
		snprintf(node.why, sizeof(node.why), "%.*s", (int)strcspn(line + end + 1, "\n"),
			 line + end + 1);
	}
	items = realloc(nodes->items, (nodes->n + 1) * sizeof(*items));
	if (items) {
		nodes->items = items;
		items[nodes->n++] = node;
	}
}

/* If the node shares the folder with this machine, its file is here. A node may name anything: what
 * is no regular file is not opened. (NFS may show an old state of a file: its size is not
 * compared.) */
static void take_file(struct nodes *nodes, const char *line)
{
	char node[64], path[4096];
	uintmax_t inode;
	struct stat st;

	if (sscanf(line, "file\t%63[^\t\n]\t%ju\t%4095[^\n]", node, &inode, path) != 3) {
		return;
	}
	if (lstat(path, &st) < 0) {
		say("%s is on %s, which shares no such folder with this machine", path, node);
	} else if (!S_ISREG(st.st_mode) || st.st_ino != inode) {
		say("%s is another file here: the one of %s stays there", path, node);
	} else {
		strings_add(&nodes->files, path, strlen(path));
	}
}

void nodes_read(struct nodes *nodes, const char *text)
{
	for (const char *p = text; *p; p = strchrnul(p, '\n'), p += *p != '\0') {
		take_node(nodes, p);
		take_file(nodes, p);
	}
}

/* --- the end --------------------------------------------------------------------------------- */

/* Those that were not measured as asked. */
static void print_failed(const struct nodes *nodes)
{
	static const struct grid_column columns[] = { { "node", .right = false },
						      { "status", .right = true },
						      { "why", .right = false } };
	CLEAN_BUF struct buf b = { 0 };
	struct grid grid;
	size_t n = 0;

	grid_init(&grid, columns, 3);
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node *node = &nodes->items[i];
		CLEAN_BUF struct buf status = { 0 };

		if (node->status == 0) {
			continue;
		}
		buf_printf(&status, "%d", node->status);
		grid_text(&grid, node->name);
		grid_text(&grid, buf_string(&status));
		grid_text(&grid, node->why);
		n++;
	}
	buf_char(&b, '\n');
	grid_print(&grid, SIZE_MAX, false, &b);
	grid_deinit(&grid);
	if (n > 0) {
		say_text(&b);
	}
	if (nodes->n < nodes->expected) {
		say("%zu of %u nodes have said nothing at the end: messages are above",
		    nodes->expected - nodes->n, nodes->expected);
	}
}

static void report(const struct nodes *nodes, const struct verb *const *verbs)
{
	const struct verb *verb = verb_find(verbs, "report");
	char **argv = calloc(nodes->files.n + 4, sizeof(*argv));
	int argc = 0;

	if (argv && nodes->files.n > 0) {
		argv[argc++] = (char *)"report";
		argv[argc++] = (char *)"--by";
		argv[argc++] = (char *)"host,rank";
		for (size_t i = 0; i < nodes->files.n; i++) {
			argv[argc++] = nodes->files.items[i];
		}
		verb->exec(verbs, argc, argv);
	}
	free(argv);
}

static size_t count_begun(const struct nodes *nodes, uint64_t *ret_kernels)
{
	size_t begun = 0;

	*ret_kernels = 0;
	for (size_t i = 0; i < nodes->n; i++) {
		begun += nodes->items[i].status != EXIT_UNMEASURED;
		*ret_kernels += nodes->items[i].kernels;
	}
	return begun;
}

int nodes_conclude(struct nodes *nodes, const struct run_options *o,
		   const struct verb *const *verbs, int status)
{
	uint64_t kernels;
	size_t begun = count_begun(nodes, &kernels);

	if (kernels > 0 && !o->quiet) {
		report(nodes, verbs);
	}
	print_failed(nodes);
	if (begun == 0) {
		say("nothing was measured on any node (srun's status: %d); --here, on a node of "
		    "the job, tries it there",
		    status);
		return status == 0 ? EXIT_UNMEASURED : EXIT_REFUSED;
	}
	if (status != 0 && status != EXIT_UNMEASURED) {
		say("not all nodes were measured as asked, or their files are not whole (srun's "
		    "status: %d)",
		    status);
		return EXIT_REFUSED;
	}
	if (status == EXIT_UNMEASURED) {
		say("not all nodes took part");
	}
	return o->fail_if_none && kernels == 0 ? EXIT_UNMEASURED : 0;
}
