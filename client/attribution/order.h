/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct normal;

/* rows: the row of each unknown. Fills first: for each row of N in this order, the first column
 * that is not zero. Returns the number of entries from these columns to the diagonal. */
size_t order_envelope(const struct normal *n, const uint32_t *rows, uint32_t *first);

/* Fills rows: a row for each unknown, so that the envelope of N is small. 0, -ENOMEM, or positive:
 * the effort is over. */
int order_rows(const struct normal *n, uint32_t *rows);
