/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A program of libgpuctr's, and the test is its daemon, as far as it takes: it welcomes, and then
 * reads. */

#include "tests/unit/unit.h"

#include <gpuctr/gpuctr.h>
#include <pthread.h>

#include "proto/wire/wire.h"

struct fixture {
	char folder[64], path[96];
	int listener, peer;
	uint32_t version; /* of the protocol */
	pthread_t daemon;
	struct gpuctr *g;
	uint8_t *page; /* what follows it cannot be read */
	size_t page_bytes;
	struct buffer in;
	struct arena arena;
};

int library_setup(void **state);
int library_teardown(void **state);

/* Begins to wait for another connection of the program's, which is welcomed. */
void library_welcome(struct fixture *f);
/* The next message of the program's, which there is; borrowed until the next call. */
struct wire_message library_expect_request(struct fixture *f);
void library_expect_no_request(struct fixture *f);
/* Sends it, and has the library handle it. */
void library_answer(struct fixture *f, const struct wire_message *m);

extern const char *const library_metrics[1];
extern const char *const library_ranges[2];
struct gpuctr_capture_options library_ask_everything(void);
