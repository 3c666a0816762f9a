/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An option of another profiler that a user has pasted, or an option or verb of ours that is gone.
 */
struct foreign {
	const char *word;   /* "--name", or a verb */
	const char *tool;   /* whose it is; NULL: it was ours */
	const char *answer; /* what does the same here */
};

/* NULL: there is nothing to say of this word. */
const struct foreign *foreign_find(const char *word);
