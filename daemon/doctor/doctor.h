/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* "gpucountd --doctor": looks at everything that the daemon needs, whether it runs or not, and
 * changes nothing. */

#include <stdbool.h>

#include "daemon/config/config.h"

struct doctor_case {
	const struct config *config; /* with the settings that could be read */
	bool settings_are_read;	     /* false: an error was printed on standard error */
	/* A step of the daemon's start, which the doctor repeats in order to check as the same
	 * user. */
	int (*leave_root)(const char *user);
	bool (*has_perfmon)(void);
};

/* Prints a line for each finding. The exit status: 0, or 1 when there is a fault. */
int doctor_run(const struct doctor_case *c);

/* The task of gpucountd --doctor-probe, which the doctor runs under a permit: see probe.h. */
int doctor_probe(void);
