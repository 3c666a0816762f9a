/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct normal;

/* first: of each row of N, in the order of rows, the first column that is not zero. Returns how
 * many entries there are from these to the diagonal. */
size_t order_envelope(const struct normal *n, const uint32_t *rows, uint32_t *first);

/* rows: the row of each unknown in which the envelope of N is small. -ENOMEM, or
 * positive: the effort is over. */
int order_rows(const struct normal *n, uint32_t *rows);
