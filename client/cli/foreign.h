/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For "--name", an option of another profiler that a user has pasted: whose option it is, and what
 * does the same here. NULL: of none. */
struct foreign {
	const char *option, *tool, *answer;
};

const struct foreign *foreign_find(const char *option);
