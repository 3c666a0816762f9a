/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CLI_ATTRIBUTED_H
#define CLIENT_CLI_ATTRIBUTED_H

#include <gpuctr/gpuctr.h>

#include "client/report/attribution.h"
#include "proto/base/buf.h"

/* Operator, sequence number, sizes, direction and layer of records as text, made once for records
 * of the same range that follow each other closely. */
struct attributed;

/* write() makes the text; of a record that is in no range all is "" and -1. NULL: out of memory. */
struct attributed *attributed_new(void (*write)(struct buf *b,
						const struct store_attribution *what));
struct attributed *attributed_free(struct attributed *a); /* takes NULL, returns NULL */

void attributed_add(struct attributed *a, struct buf *b, const struct gpuctr_record *record,
		    const struct attribution *what);

#endif
