/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "daemon/doctor/doctor.h"
#include "daemon/doctor/finding.h"

/* For apart_run(); userdata is a struct doctor_case. Runs a profiler under a permit of the daemon
 * that listens at its socket, as the user who called the doctor: the whole way from the client to
 * the driver. Becomes that user. */
void permit_try(struct finding_sink *sink, void *userdata);
