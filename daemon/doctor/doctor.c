/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/doctor/doctor.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/base/log.h"
#include "daemon/doctor/apart.h"
#include "daemon/doctor/finding.h"
#include "daemon/doctor/inside.h"
#include "daemon/doctor/outside.h"
#include "daemon/doctor/permit.h"
#include "daemon/doctor/probe.h"

/* The doctor looks from two sides. From outside: at what the system tells of a running daemon, its
 * processes and its socket, and at what the daemon answers. From inside: in a process of its own,
 * as the user that the daemon becomes, at what a daemon would find if it started now. NVIDIA's
 * libraries may end or hang that process, which is a finding as well. Last, a profiler of the
 * caller's is run under a permit. */

struct printer {
	struct finding_sink sink;
	unsigned faults, warnings;
};

/* Text of libraries and of other processes is printed to a terminal, so control characters are
 * replaced. */
static void print_plain(const char *text)
{
	for (; *text; text++) {
		putchar(iscntrl((unsigned char)*text) ? '?' : *text);
	}
}

static void print(struct finding_sink *sink, const struct finding *f)
{
	static const char *const grades[] = { "ok", "warning", "fault" };
	struct printer *p = (struct printer *)sink;

	p->faults += f->grade == FINDING_FAULT;
	p->warnings += f->grade == FINDING_WARNING;
	printf("%-8s %-11s ", grades[f->grade], f->what);
	print_plain(f->text);
	if (f->remedy[0]) {
		printf("\n%-20s remedy: ", "");
		print_plain(f->remedy);
	}
	putchar('\n');
	fflush(stdout);
}

static void look_at_settings(const struct doctor_case *c, struct finding_sink *sink)
{
	if (c->settings_are_read && c->config->n_left_out > 0) {
		finding_tell(sink, FINDING_WARNING, "settings",
			     "Create them, name them by number, or take them out of the settings.",
			     "names that nobody has are left out: see the warning above");
	} else if (c->settings_are_read) {
		finding_tell(sink, FINDING_OK, "settings", "", "they are as they should be");
	} else {
		finding_tell(sink, FINDING_FAULT, "settings",
			     "Correct it and run this again; below, what could be read counts.",
			     "they are refused: see the message above");
	}
}

int doctor_run(const struct doctor_case *c)
{
	struct printer p = { .sink = { print } };
	struct outside_result outside;

	log_init("doctor", LOG_CRIT);
	look_at_settings(c, &p.sink);
	outside = outside_look(c->config, &p.sink);
	apart_run(&p.sink, inside_look, &(struct inside_case){ c, outside.runs });
	/* An unwell daemon has told why; a client would wait for it and then report the same. */
	if (outside.is_well) {
		apart_run(&p.sink, permit_try, (void *)(uintptr_t)c);
	}
	printf("%u fault%s, %u warning%s\n", p.faults, p.faults == 1 ? "" : "s", p.warnings,
	       p.warnings == 1 ? "" : "s");
	return p.faults > 0 ? 1 : 0;
}

int doctor_probe(void)
{
	return probe_run();
}
