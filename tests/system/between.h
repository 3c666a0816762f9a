/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Stands between one client and the daemon, and holds up the client's wish for a capture: so a test
 * decides what happens between the client's list of processes and its wish. */

#include <pthread.h>
#include <semaphore.h>

#include "tests/system/fixture.h"

struct between {
	char socket[108]; /* for GPUCTR_SOCKET */
	int listener, daemon, client;
	pthread_t up, down;
	sem_t held, let_go;
};

/* To the daemon it is one client of uid. */
void between_begin(struct between *b, struct fixture *f, int uid);

/* Waits until the wish has come; it goes on at between_let_go(). */
void between_wait_held(struct between *b);
void between_let_go(struct between *b);

/* The client has ended. */
void between_end(struct between *b);
