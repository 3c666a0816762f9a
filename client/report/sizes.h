/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The sizes of an operator's inputs, as PyTorch writes them: "[[64, 3, 7, 7], [2], [], []]". */

#include <stdbool.h>
#include <stddef.h>

/* Whether the text is one JSON list of whole numbers and of such lists. */
bool sizes_is_list(const char *sizes);

/* Writes the list above as "[64,3,7,7] [2]", without the empty sizes at the end: scalars, and
 * arguments that are not tensors, have empty sizes. Writes at most max - 1 bytes, and "" if the
 * text is not a list of lists. Returns whether the whole list fitted. */
bool sizes_format(const char *sizes, char *text, size_t max);
