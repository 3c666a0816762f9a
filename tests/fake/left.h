/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Counts what users of a library have to give back. When the process ends by exit(), after all exit
 * handlers, each kind of which something is left gives a line "pid kind number" in left.log of
 * GPUCTR_FAKE_DIR. A forked child counts for itself. */

enum left_kind {
	LEFT_HOOKS,	  /* the profiler's, in the driver */
	LEFT_PROFILERS,	  /* enabled range profilers */
	LEFT_HOSTS,	  /* objects of the profiler's host half */
	LEFT_SUBSCRIBERS, /* of callbacks */
	LEFT_ACTIVITIES,  /* kinds of activity that are enabled */
	LEFT_BUFFERS,	  /* buffers of the user's that were asked for and not given back */
	LEFT_SAMPLERS,	  /* enabled PM sampling */
	LEFT_EVENTS,	  /* of contexts that still exist */
	LEFT_KINDS,
};

/* Opens the file: a program that shuts itself in may open none later. */
void left_begin(void);

/* number is negative for what was given back. */
void left_count(enum left_kind kind, int number);
