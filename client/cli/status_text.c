/* SPDX-License-Identifier: Apache-2.0 */

/* The daemon's status for people, of "status" and "top". */

#include "client/cli/status_text.h"

#include "client/cli/status_json.h"
#include "client/cli/terminal.h"
#include "client/cli/text.h"

static void add_daemon(struct buf *b, const struct gpuctr_status *status)
{
	static const char *const restricted[] = { "open to every user",
						  "restricted to administrators", "unknown" };
	unsigned which = status->restricted <= GPUCTR_RESTRICTION_UNKNOWN
				 ? status->restricted
				 : GPUCTR_RESTRICTION_UNKNOWN;

	buf_text(b, "gpucountd ");
	text_terminal(b, status->daemon);
	buf_text(b, ", up ");
	text_duration(b, status->uptime_ns);
	buf_printf(b, ", %u connection%s\n", status->peers, status->peers == 1 ? "" : "s");
	buf_text(b, "driver ");
	text_terminal(b, *status->driver ? status->driver : "none");
	buf_text(b, ", CUPTI ");
	text_terminal(b, *status->cupti ? status->cupti : "not found");
	buf_printf(b, ", counters without this daemon: %s\n", restricted[which]);
	if (status->trouble.code != GPUCTR_OK) {
		buf_printf(b, "nothing can be measured[%s]: ",
			   gpuctr_error_name(status->trouble.code));
		text_terminal(b, status->trouble.message);
		buf_text(b, *status->trouble.remedy ? "\n  remedy: " : "");
		text_terminal(b, status->trouble.remedy);
		buf_char(b, '\n');
	}
}

static void add_gpu(struct buf *b, const struct gpuctr_gpu *gpu, bool in_trouble)
{
	buf_printf(b, "  %u  ", gpu->index);
	text_terminal(b, gpu->name);
	buf_text(b, " (");
	text_terminal(b, gpu->chip);
	buf_text(b, ")  ");
	text_terminal(b, gpu->uuid);
	if (gpu->holder) {
		buf_printf(b, "  held by capture %u", gpu->holder);
	} else {
		buf_text(b, in_trouble ? "  not measurable" : "  free");
	}
	if (gpu->waiting) {
		buf_printf(b, ", %u waiting", gpu->waiting);
	}
	if (*gpu->job) {
		buf_text(b, ", of job ");
		text_terminal(b, gpu->job);
		buf_text(b, " of ");
		text_terminal(b, gpu->job_user);
	}
	buf_char(b, '\n');
}

static void add_capture(struct buf *b, const struct gpuctr_capture_info *info)
{
	buf_printf(b, "  %u  %s  ", info->capture, status_state_name(info->state));
	text_terminal(b, info->user && *info->user ? info->user : TEXT_UNKNOWN);
	buf_text(b, " (");
	text_terminal(b, info->program);
	buf_printf(b, ", pid %u)", info->pid);
	if (info->position) {
		buf_printf(b, "  number %u in the queue", info->position);
	}
	if (info->processes) {
		buf_printf(b, "  %u process%s", info->processes, info->processes == 1 ? "" : "es");
	}
	if (info->totals.seen) {
		buf_text(b, "  ");
		text_count(b, info->totals.measured);
		buf_text(b, " of ");
		text_count(b, info->totals.seen);
		buf_text(b, " kernels measured");
	}
	if (info->lease_left_ns) {
		buf_text(b, "  lease ");
		text_duration(b, info->lease_left_ns);
	}
	buf_char(b, '\n');
	for (size_t i = 0; i < info->n_metrics; i++) {
		buf_text(b, i == 0 ? "     " : ", ");
		text_terminal(b, info->metrics[i]);
	}
	if (info->n_metrics) {
		buf_char(b, '\n');
	}
}

static uint64_t sum(const struct gpuctr_code_count *v, size_t n)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++) {
		total += v[i].count;
	}
	return total;
}

/* The counts that show whether the daemon works well; --json has the others. */
static void add_counts(struct buf *b, const struct gpuctr_counts *c)
{
	uint64_t restarts =
		c->restarts_front + c->restarts_granter + c->restarts_gpu + c->restarts_planner;

	buf_text(b, "\nsince then: leases ");
	text_count(b, c->leases);
	buf_text(b, ", refusals ");
	text_count(b, sum(c->refusals, c->n_refusals));
	buf_text(b, ", records ");
	text_count(b, c->records);
	buf_text(b, ", kernels dropped or lost ");
	text_count(b, c->kernels.dropped + c->kernels.lost);
	buf_text(b, ", workers replaced ");
	text_count(b, restarts);
	buf_char(b, '\n');
}

void status_text(struct buf *b, const struct gpuctr_status *status, bool styled)
{
	add_daemon(b, status);
	buf_char(b, '\n');
	terminal_bold(b, styled, status->n_gpus ? "GPUs" : "no GPUs");
	buf_char(b, '\n');
	for (size_t i = 0; i < status->n_gpus; i++) {
		add_gpu(b, &status->gpus[i], status->trouble.code != GPUCTR_OK);
	}
	buf_char(b, '\n');
	terminal_bold(b, styled, status->n_captures ? "captures" : "no captures");
	buf_char(b, '\n');
	for (size_t i = 0; i < status->n_captures; i++) {
		add_capture(b, &status->captures[i]);
	}
	if (status->counts) {
		add_counts(b, status->counts);
	}
}
