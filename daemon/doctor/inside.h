/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/doctor/doctor.h"
#include "daemon/doctor/finding.h"

struct inside_case {
	const struct doctor_case *doctor;
	bool runs; /* a daemon runs, and its own capabilities were looked at */
};

/* For apart_run(); userdata is a struct inside_case. Becomes the daemon's user and stays it. */
void inside_look(struct finding_sink *sink, void *userdata);
