/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An option of another profiler that a user has pasted, or an option or verb of ours that is gone.
 */
struct foreign {
	const char *word;   /* "--name", "-n", or a verb */
	const char *tool;   /* the profiler that has the word; NULL: it was ours */
	const char *answer; /* what does the same here */
};

/* An option of another tool that we accept, because one of ours means the same. */
struct foreign_same {
	const char *word, *ours; /* without dashes */
};
extern const struct foreign_same foreign_same[]; /* the last word is NULL */

/* NULL: there is no answer to this word. */
const struct foreign *foreign_find(const char *word);
