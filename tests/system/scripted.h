/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/system/fixture.h"

/* From now on clients have a sampler in Python, with what writes a stream in the format of
 * client/sampler/stream.h. Each metric is of the set that begin() is given for it, whose samples
 * have value for it. */
void scripted_sampler(struct fixture *f, const char *body);
