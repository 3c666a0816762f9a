/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One thing that was looked at, its state, and what to do about it. A finding is plain data: where
 * looking may end a process, another process looks and sends its findings through a pipe. */

enum finding_grade {
	FINDING_OK,
	FINDING_WARNING, /* somebody may want it so, or it could not be looked at */
	FINDING_FAULT,	 /* something does not work because of it */
	FINDING_STEP,	 /* no finding: names what is looked at next */
};

struct finding {
	enum finding_grade grade;
	char what[16];
	char text[640];
	char remedy[640]; /* "": nothing is to be done */
};

/* Receives findings. */
struct finding_sink {
	void (*take)(struct finding_sink *sink, const struct finding *f);
};

void finding_tell(struct finding_sink *sink, enum finding_grade grade, const char *what,
		  const char *remedy, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
